//! The hosts of a URL, all asked at once. The driver would ask one after the other, and wait for the first for as
//! long as it may: one that is cut off or stands still refuses nothing.

use std::panic::resume_unwind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::driver::Raw;
use crate::problem::Problem;

/// What connections are made of.
pub struct Hosts {
    /// One for each host.
    configs: Vec<Config>,
    tls: MakeRustlsConnect,
}

impl Hosts {
    pub fn new(config: &Config, tls: MakeRustlsConnect) -> Self {
        Self { configs: apart(config), tls }
    }

    /// A connection to the first that says that it takes rows. The others are given up.
    pub async fn connect(&self) -> Result<Raw, Problem> {
        let mut attempts = JoinSet::new();
        for config in self.configs.clone() {
            let tls = self.tls.clone();
            attempts.spawn(async move { Raw::connect(&config, tls).await });
        }
        let mut problem = Problem::NoConnection(Duration::ZERO);
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(raw)) => return Ok(raw),
                Ok(Err(error)) => problem = error.into(),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => unreachable!("nobody ends an attempt"),
                },
            }
        }
        Err(problem)
    }
}

/// A configuration for each host, or the one for all, which the driver refuses, if numbers do not match.
fn apart(config: &Config) -> Vec<Config> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let ports = config.get_ports();
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length <= 1 || length == count;
    if count <= 1 || !fits(ports.len()) || ![0, count].contains(&addresses.len()) {
        return vec![config.clone()];
    }
    let alone = |index: usize| {
        let mut alone = common(config);
        match hosts.get(index) {
            Some(Host::Tcp(host)) => {
                alone.host(host);
            }
            #[cfg(unix)]
            Some(Host::Unix(folder)) => {
                alone.host_path(folder);
            }
            None => {}
        }
        if let Some(address) = addresses.get(index) {
            alone.hostaddr(*address);
        }
        if let Some(port) = ports.get(index).or_else(|| ports.first()) {
            alone.port(*port);
        }
        alone
    };
    (0..count).map(alone).collect()
}

/// All that a URL may say but its hosts.
fn common(config: &Config) -> Config {
    let mut common = Config::new();
    if let Some(user) = config.get_user() {
        common.user(user);
    }
    if let Some(password) = config.get_password() {
        common.password(password);
    }
    if let Some(database) = config.get_dbname() {
        common.dbname(database);
    }
    if let Some(name) = config.get_application_name() {
        common.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        common.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        common.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        common.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        common.keepalives_retries(retries);
    }
    common
        .ssl_mode(config.get_ssl_mode())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle());
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The debug form has all fields but the password's text.
    #[test]
    fn each_host_has_all_the_rest() {
        let rest = "application_name=a&channel_binding=require&connect_timeout=3&keepalives=1&\
                    keepalives_idle=4&keepalives_interval=5&keepalives_retries=6&tcp_user_timeout=7";
        let read = |hosts: &str| -> Config {
            format!("postgres://u:p@{hosts}/d?{rest}").parse().expect("a URL")
        };
        let all = apart(&read("a:1,b:2"));
        for (config, host) in all.iter().zip(["a:1", "b:2"]) {
            assert_eq!(format!("{config:?}"), format!("{:?}", read(host)));
            assert_eq!(config.get_password(), Some(&b"p"[..]));
        }
        assert_eq!(all.len(), 2);
        assert_eq!(apart(&read("a:1")).len(), 1);
    }
}
