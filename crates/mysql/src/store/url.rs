//! The URL of a server, read so that nothing of it is repeated when it is wrong.

use mysql_async::{Opts, OptsBuilder, UrlError};
use uidring_store::url::{check_once, database_url, shown, without_brackets};

/// Returns the driver's options and whether the URL mentions TLS, or what is wrong with the URL.
pub fn read(url: &str) -> Result<(Opts, bool), String> {
    check(url)?;
    let opts = Opts::from_url(url).map_err(|error| driver_problem(&error))?;
    // A URL has brackets around an address of version 6; look-ups and certificates have none.
    let host = opts.ip_or_hostname();
    let host = without_brackets(host).unwrap_or(host).to_owned();
    let opts = OptsBuilder::from_opts(opts)
        .ip_or_hostname(host)
        // What the driver would ask the server for otherwise, and connect a second time: nothing
        // here is large, or stays open for long.
        .prefer_socket(false)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(3_600))
        .stmt_cache_size(0);
    let (_, parameters) = url.split_once('?').unwrap_or((url, ""));
    let says_tls = parameters.split('&').any(|parameter| parameter.starts_with("require_ssl="));
    Ok((opts.into(), says_tls))
}

/// Returns what the driver says of a wrong URL, without the parts that may be secret.
fn driver_problem(error: &UrlError) -> String {
    match error {
        UrlError::UnknownParameter { param } => {
            format!("the driver knows no parameter{}", shown(param))
        }
        UrlError::InvalidParamValue { param, .. } => {
            format!("the driver cannot read the value of the parameter{}", shown(param))
        }
        UrlError::FeatureRequired { param, .. } => {
            format!("this build of the driver lacks the parameter{}", shown(param))
        }
        _ => "it has a part that the driver cannot read, such as a port that is no number".into(),
    }
}

fn check(url: &str) -> Result<(), String> {
    let (_, parameters) = database_url(url, &["mysql://"])?;
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let name = parameter.split('=').next().unwrap_or_default();
        // The driver would decode it.
        if name.contains(['%', '+']) {
            return Err("the name of a parameter is percent-encoded".into());
        }
    }
    // The driver takes the last.
    check_once(parameters)?;
    // The driver takes it, and heeds it not.
    if parameters.split('&').any(|parameter| parameter.starts_with("verify_identity")) {
        return Err("verify_identity has no effect, since the host's name in the certificate is \
                    always checked: leave it out, and use the name in the certificate"
            .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_apart() {
        for (url, text) in [
            ("", "is empty"),
            ("ids", "does not begin"),
            ("mysql://u@/d", "no host"),
            ("mysql://u@h", "no database"),
            ("mysql://u:a/b@h/d", "percent-encoded"),
            ("mysql://u@h/d?nonsense=1", "no parameter `nonsense`"),
            ("mysql://u@h/d?S3cret=1", "no parameter"),
            ("mysql://u@h/d?tcp_keepalive=s3cret", "value of the parameter `tcp_keepalive`"),
            ("mysql://u@h:s3cret/d", "a port that is no number"),
            ("mysql://u@h/d?require_ssl=true&verify_identity=false", "always checked"),
            ("mysql://u@h/d?verify_identity=true", "always checked"),
            ("mysql://u@h/d?require_ssl=true&require_ssl=false", "`require_ssl` is given twice"),
            ("mysql://u@h/d?require_ssl=true&require%5Fssl=false", "percent-encoded"),
        ] {
            let error = read(url).expect_err(url);
            assert!(error.contains(text), "{url}: {error}");
            assert!(!error.to_lowercase().contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn an_address_of_version_6_goes_to_the_driver_without_brackets() {
        for (url, host, port) in [
            ("mysql://u@[::1]:3307/d", "::1", 3_307),
            ("mysql://u@[2001:db8::7]/d?require_ssl=true", "2001:db8::7", 3_306),
            ("mysql://u@db.example/d", "db.example", 3_306),
        ] {
            let (opts, _) = read(url).expect(url);
            assert_eq!((opts.ip_or_hostname(), opts.tcp_port()), (host, port));
        }
    }
}
