//! Database URLs as other programs write them, and how they are read.

use uidring::Error;
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;

/// The server and the database, or part of the error.
const POSTGRES: &[(&str, Result<&str, &str>)] = &[
    // psql and libpq.
    ("postgresql://user@localhost/mydb", Ok("localhost:5432/mydb")),
    ("postgresql://user:s3cret@localhost:5433/mydb", Ok("localhost:5433/mydb")),
    (
        "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp",
        Ok("localhost:5432/otherdb"),
    ),
    (
        "postgresql://u@host1:123,host2:456/somedb?target_session_attrs=any",
        Ok("host1:123,host2:456/somedb"),
    ),
    (
        "postgresql://u@host1,host2/somedb?target_session_attrs=standby",
        Err("write read-write or primary or any"),
    ),
    ("postgresql://u@/mydb?host=localhost&port=5433", Ok("localhost:5433/mydb")),
    ("postgresql://u@[2001:db8::1234]/database", Ok("[2001:db8::1234]:5432/database")),
    ("postgresql://u@%2Fvar%2Flib%2Fpostgresql/dbname", Ok("/var/lib/postgresql:5432/dbname")),
    ("postgresql://localhost/mydb", Err("it names no user")),
    ("postgresql://u@localhost", Err("it names no database")),
    ("postgresql:///mydb?user=u", Err("write it before the host")),
    ("postgresql://u@h/d?keepalives=1&keepalives_idle=30&tcp_user_timeout=5000", Ok("h:5432/d")),
    ("postgresql://u@h/d?options=-csearch_path%3Dshop", Err("what transactions rely on")),
    ("postgresql://u@h/d?service=shop", Err("write host, user and database into the URL")),
    ("postgresql://u@h/d?sslmode=require&sslcrl=crl.pem", Err("replace the authority")),
    ("host=localhost dbname=mydb user=u password=s3cret", Err("does not begin with postgres://")),
    // sqlx and diesel.
    ("postgres://postgres:s3cret@localhost/test", Ok("localhost:5432/test")),
    ("postgres://u:s3cret@db/ids?sslmode=require&statement-cache-capacity=100", Ok("db:5432/ids")),
    ("postgres://u:s3cret@db/ids?sslmode=prefer", Err("a server in the middle can turn TLS off")),
    ("postgres://u:s3cret@db/ids?sslmode=disable", Ok("db:5432/ids")),
    // Rails and Django.
    (
        "postgresql://deploy:s3cret@localhost/app?pool=5&checkout_timeout=5&prepared_statements=false",
        Ok("localhost:5432/app"),
    ),
    ("postgresql://u@localhost/app?schema_search_path=shop", Err("would begin at 1 again")),
    ("postgis://u:s3cret@localhost/gis?conn_max_age=600", Ok("localhost:5432/gis")),
    // SQLAlchemy.
    ("postgresql+psycopg2://scott:s3cret@localhost:5432/db", Ok("localhost:5432/db")),
    ("postgresql+psycopg://scott:s3cret@localhost/db", Ok("localhost:5432/db")),
    ("postgresql+asyncpg://scott:s3cret@h/db?ssl=require", Ok("h:5432/db")),
    // Prisma.
    ("postgresql://u:s3cret@localhost:5432/db?schema=public", Err("use a database of its own")),
    (
        "postgresql://u:s3cret@localhost/db?connection_limit=5&pool_timeout=2&pgbouncer=true",
        Ok("localhost:5432/db"),
    ),
    (
        "postgresql://u:s3cret@localhost/db?host=/var/run/postgresql",
        Ok("/var/run/postgresql:5432/db"),
    ),
    ("postgresql://u:s3cret@h/db?sslidentity=client.p12", Err("with `cert`")),
    // Go, and hosted databases.
    (
        "postgres://jack:s3cret@pg.example.com/db?sslmode=verify-ca&pool_max_conns=10",
        Ok("pg.example.com:5432/db"),
    ),
    (
        "postgresql://u:s3cret@ep-cool.example.net/db?sslmode=require&channel_binding=require",
        Ok("ep-cool.example.net:5432/db"),
    ),
    (
        "postgres://u:s3cret@/db?host=/cloudsql/project:region:instance",
        Ok("/cloudsql/project:region:instance:5432/db"),
    ),
    // JDBC.
    ("jdbc:postgresql://localhost/test?user=fred&password=s3cret", Err("leave out `jdbc:`")),
    ("postgresql://u@h/d?currentSchema=shop", Err("use a database of its own")),
];

const MYSQL: &[(&str, Result<&str, &str>)] = &[
    // sqlx and diesel.
    ("mysql://root:s3cret@localhost/db", Ok("localhost:3306/db")),
    (
        "mysql://root:s3cret@h/db?ssl-mode=REQUIRED&charset=utf8mb4&collation=utf8mb4_bin",
        Ok("h:3306/db"),
    ),
    ("mysql://root:s3cret@h/db?ssl-mode=PREFERRED", Err("a server in the middle can turn TLS off")),
    (
        "mysql://root:s3cret@h/db?ssl-mode=VERIFY_CA&ssl-ca=/nowhere/ca.pem",
        Err("from /nowhere/ca.pem"),
    ),
    ("mysql://u:s3cret@h/db?ssl_mode=DISABLED&unix_socket=/run/db.sock", Ok("/run/db.sock/db")),
    // Rails, Laravel and Django.
    (
        "mysql2://root@127.0.0.1:3306/app?encoding=utf8mb4&pool=5&reconnect=true",
        Ok("127.0.0.1:3306/app"),
    ),
    ("trilogy://root@localhost/app", Ok("localhost:3306/app")),
    ("mysql://root:s3cret@127.0.0.1/forge?charset=UTF-8", Ok("127.0.0.1:3306/forge")),
    ("mysql://u:s3cret@localhost/db?conn_max_age=600", Ok("localhost:3306/db")),
    (
        "mysql://u:s3cret@localhost/db?init_command=SET%20sql_mode%3D%27%27",
        Err("what transactions rely on"),
    ),
    // SQLAlchemy.
    ("mysql+pymysql://scott:s3cret@localhost/foo?charset=utf8mb4", Ok("localhost:3306/foo")),
    ("mysql+mysqldb://u:s3cret@localhost/db?unix_socket=/tmp/mysql.sock", Ok("/tmp/mysql.sock/db")),
    ("mariadb+mariadbconnector://u@127.0.0.1:3307/db", Ok("127.0.0.1:3307/db")),
    // Prisma and Node.
    ("mysql://u:s3cret@h/db?connection_limit=5&sslaccept=strict", Ok("h:3306/db")),
    ("mysql://u:s3cret@localhost/db?socket=/tmp/mysql.sock", Ok("/tmp/mysql.sock/db")),
    (
        "mysql://u:s3cret@h/db?ssl=%7B%22rejectUnauthorized%22%3Atrue%7D",
        Err("write tls=verify or tls=off"),
    ),
    ("mysql://u:s3cret@h/db?debug=true", Err("has no parameter `debug`")),
    // Go and JDBC.
    ("u:s3cret@tcp(localhost:3306)/db?parseTime=true", Err("does not begin with mysql://")),
    (
        "jdbc:mysql://localhost:3306/db?useSSL=false&user=u&password=s3cret",
        Err("leave out `jdbc:`"),
    ),
    ("mysqlx://u:s3cret@localhost/db", Err("does not begin with mysql://")),
    // Slips.
    ("mysql://u:s3cret@h1,h2/db", Err("takes one")),
    ("mysql://root@localhost:3306/", Err("it names no database")),
    ("mysql://u:s3#cret@h/db", Err("percent-encoded")),
    ("mysql://u:s3cret@h/db?tls=verify&ssl-mode=REQUIRED", Err("set the same option")),
];

#[test]
fn urls_of_other_programs_work_or_say_why_not() {
    check(POSTGRES, |url| PostgresStore::from_url(url).map(|store| store.to_string()));
    check(MYSQL, |url| MySqlStore::from_url(url).map(|store| store.to_string()));
}

fn check(table: &[(&str, Result<&str, &str>)], read: impl Fn(&str) -> Result<String, Error>) {
    for (url, expected) in table {
        match (read(url), expected) {
            (Ok(found), Ok(server)) => assert_eq!(found, *server, "{url}"),
            (Err(error), Err(part)) => {
                let text = format!("{error} {error:?}");
                assert!(text.contains(part), "{url}: {text}");
                assert!(!text.contains("s3cret") && !text.contains("cret@"), "{url}: {text}");
            }
            (found, _) => panic!("{url}: {found:?}"),
        }
    }
}
