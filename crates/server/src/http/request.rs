//! HTTP requests: path and parameters, percent-decoded.

use std::borrow::Cow;
use std::fmt;

use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Uri, Version};

pub struct Asked {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
}

/// A part of a path or a parameter that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed<'a> {
    what: &'a str,
    problem: &'static str,
}

impl fmt::Display for Malformed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.problem)
    }
}

impl Asked {
    pub fn new(parts: Parts) -> Self {
        let Parts { method, uri, version, headers, .. } = parts;
        Self { method, uri, version, headers }
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Whether the client wants no body, and thus no ids.
    pub fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    pub fn path(&self) -> &str {
        self.uri.path()
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The scheme of an absolute target.
    pub fn scheme(&self) -> Option<&str> {
        self.uri.scheme_str()
    }

    /// The host of an absolute target.
    pub fn authority(&self) -> Option<&str> {
        self.uri.authority().map(|authority| authority.as_str())
    }

    pub fn headers(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        self.headers.get_all(name).into_iter().map(|value| value.as_bytes())
    }

    pub fn header(&self, name: HeaderName) -> Option<&[u8]> {
        self.headers.get(name).map(|value| value.as_bytes())
    }

    /// Returns the last part of the path, decoded.
    pub fn last_segment(&self, what: &'static str) -> Result<Cow<'_, str>, Malformed<'static>> {
        let text = self.path().rsplit('/').next().unwrap_or_default();
        decode(text, false, what)
    }

    /// Describes what is wrong with the query, if it has other parameters than these, or repeats one.
    pub fn problem_of_query(&self, known: &[&str]) -> Option<String> {
        let mut seen = Vec::with_capacity(known.len());
        for pair in self.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
        {
            let key = pair.split_once('=').map_or(pair, |(key, _)| key);
            let key = match decode(key, true, "a parameter's name") {
                Ok(key) => key,
                Err(error) => return Some(error.to_string()),
            };
            let Some(name) = known.iter().find(|name| **name == key) else {
                let key: String = key.chars().take(64).collect();
                return Some(match known {
                    [] => format!("there is no parameter `{key}`; this path has none"),
                    known => {
                        format!("there is no parameter `{key}`; there are {}", known.join(", "))
                    }
                });
            };
            if seen.contains(name) {
                return Some(format!("the parameter `{name}` is given twice"));
            }
            seen.push(*name);
        }
        None
    }

    /// Returns the first parameter with this name, decoded.
    pub fn parameter<'a>(&self, name: &'a str) -> Result<Option<Cow<'_, str>>, Malformed<'a>> {
        for pair in self.uri.query().unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if decode(key, true, name).is_ok_and(|key| key == name) {
                return decode(value, true, name).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the headers' memory, to reuse it for the answer.
    pub fn into_headers(self) -> HeaderMap {
        let mut headers = self.headers;
        headers.clear();
        headers
    }
}

/// Replaces `%XX` by bytes, and in queries `+` by a space. The result must be UTF-8.
fn decode<'a, 'b>(
    text: &'a str,
    is_query: bool,
    what: &'b str,
) -> Result<Cow<'a, str>, Malformed<'b>> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+' && is_query) {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    let problem = "has a `%` without two hexadecimal digits after it";
                    return Err(Malformed { what, problem });
                };
                (high * 16 + low) as u8
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    match String::from_utf8(decoded) {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(_) => Err(Malformed { what, problem: "is not UTF-8 once its `%` are decoded" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str) -> Asked {
        let request = hyper::Request::get(uri).body(()).expect("a request");
        Asked::new(request.into_parts().0)
    }

    #[test]
    fn parameters_are_found_and_decoded() {
        let asked = asked("/x?a=1&b=%C3%A4+%2b&c&a=2&%64=4&&=");
        let value =
            |name: &'static str| asked.parameter(name).map(|text| text.map(Cow::into_owned));
        assert_eq!(value("a"), Ok(Some("1".into())));
        assert_eq!(value("b"), Ok(Some("ä +".into())));
        assert_eq!(value("c"), Ok(Some(String::new())));
        assert_eq!(value("d"), Ok(Some("4".into())));
        assert_eq!(value("e"), Ok(None));
    }

    #[test]
    fn what_cannot_be_decoded_is_named() {
        for (text, problem) in
            [("%", "two"), ("%4", "two"), ("%zz", "two"), ("%+1", "two"), ("%ff", "UTF-8")]
        {
            let uri = format!("/k/{text}?n={text}");
            let asked = asked(&uri);
            let error = asked.parameter("n").expect_err("malformed").to_string();
            assert!(error.starts_with("n ") && error.contains(problem), "{error}");
            let error = asked.last_segment("the key").expect_err("malformed").to_string();
            assert!(error.starts_with("the key ") && error.contains(problem), "{error}");
        }
        assert_eq!(asked("/k/a+b%2Fc").last_segment("the key").as_deref(), Ok("a+b/c"));
    }
}
