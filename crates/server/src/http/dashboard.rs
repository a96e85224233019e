//! `/`: one page without outside assets, which asks for the token, if any, and shows `/v1/events`.

use hyper::Response;
use hyper::body::Bytes;

use super::answer;
use super::body::Body;
use super::request::Asked;

const PAGE: &str = include_str!("dashboard.html");

pub fn page(asked: Asked) -> Response<Body> {
    answer::page(asked, "default-src 'none'", Bytes::from_static(PAGE.as_bytes()))
}
