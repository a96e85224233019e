//! Checks that a request is meant for this server, and does not come from another site's page in a browser.

use std::net::IpAddr;

use hyper::header::{self, HeaderName};
use hyper::http::uri::Authority;
use hyper::{Method, Version};

use super::request::Asked;
use crate::shared::Shared;

/// Checks the host of a request. This is stricter than RFC 9112, which ignores `Host` if the target has a host, because
/// a proxy might use the other one.
pub fn check_host(asked: &Asked) -> Result<(), &'static str> {
    let target = asked.0.uri.authority().map(Authority::as_str);
    let mut hosts = asked.headers(header::HOST);
    let host = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err("there are two Host headers; send one"),
        (None, None) if asked.0.version >= Version::HTTP_11 => {
            return Err("there is no Host header; send one");
        }
        (None, None) if target.is_some() => {
            return Err("the target names a host, and there is no Host header; send one");
        }
        (host, None) => host.unwrap_or_default(),
    };
    // An authority may contain a user name, but a host may not.
    let is_host =
        |host: &str| host.is_empty() || !host.contains('@') && host.parse::<Authority>().is_ok();
    let Some(host) = str::from_utf8(host).ok().filter(|host| is_host(host)) else {
        return Err("the Host header names no host");
    };
    let port = if asked.0.uri.scheme_str() == Some("https") { ":443" } else { ":80" };
    let without_port = |host| str::strip_suffix(host, port).unwrap_or(host);
    match target {
        Some(target) if !without_port(target).eq_ignore_ascii_case(without_port(host)) => {
            Err("the request names another host than its Host header")
        }
        _ => Ok(()),
    }
}

/// Refuses requests that another site's page may have a browser send. If only this host can ask, and needs no token,
/// such a page may even have pointed its own name here, so the only valid host name is `localhost`.
pub fn check_origin(shared: &Shared, asked: &Asked) -> Result<(), String> {
    const ANOTHER: &str = "a page of another site asked for this in a browser; it may not";
    let is = |name, value: &[u8]| asked.header(HeaderName::from_static(name)) == Some(value);
    if is("sec-fetch-site", b"cross-site") && !is_visit(asked) {
        return Err(ANOTHER.into());
    }
    let host = asked.header(header::HOST).and_then(|host| str::from_utf8(host).ok());
    let host = host.unwrap_or_default();
    let is_of_host = |origin: &[u8]| {
        let origin = str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
        origin.is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    };
    if !asked.headers(header::ORIGIN).all(is_of_host) {
        return Err(ANOTHER.into());
    }
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_here = || {
        let is_localhost = name.is_empty() || name.eq_ignore_ascii_case("localhost");
        is_localhost || address.parse::<IpAddr>().is_ok()
    };
    if !shared.is_local || shared.password.is_some() || is_here() {
        return Ok(());
    }
    let host: String = host.chars().take(128).collect();
    Err(format!(
        "the Host header names `{host}`, and a server that only its own host can reach, without a password, answers \
         as localhost or by its address alone: a page of another site may have its name stand for this host. Ask \
         for localhost, have a proxy send `Host: localhost`, or set a password"
    ))
}

/// Whether somebody follows a link to the dashboard. That page has no data, cannot be framed, and makes its own
/// requests from this site. So the linking page learns nothing.
fn is_visit(asked: &Asked) -> bool {
    let mode = asked.header(HeaderName::from_static("sec-fetch-mode"));
    asked.0.method == Method::GET && asked.path() == "/" && mode == Some(b"navigate")
}
