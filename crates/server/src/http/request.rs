//! HTTP requests: path and parameters, percent-decoded.

use std::borrow::Cow;

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;

/// A request without its body. Its methods' errors say which part cannot be read, and why.
pub struct Asked(pub Parts);

impl Asked {
    /// Whether the client wants no body, and thus no ids.
    pub fn is_head(&self) -> bool {
        self.0.method == Method::HEAD
    }

    pub fn path(&self) -> &str {
        self.0.uri.path()
    }

    pub fn headers(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        self.0.headers.get_all(name).into_iter().map(|value| value.as_bytes())
    }

    pub fn header(&self, name: HeaderName) -> Option<&[u8]> {
        self.0.headers.get(name).map(|value| value.as_bytes())
    }

    /// Returns the last part of the path, decoded.
    pub fn last_segment(&self, what: &str) -> Result<Cow<'_, str>, String> {
        let text = self.path().rsplit('/').next().unwrap_or_default();
        decode(text, false, what)
    }

    /// Refuses a query with other parameters than these, or a repeated one.
    pub fn check_query(&self, known: &[&str]) -> Result<(), String> {
        let mut seen = Vec::with_capacity(known.len());
        let query = self.0.uri.query().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let key = pair.split_once('=').map_or(pair, |(key, _)| key);
            let key = decode(key, true, "a parameter's name")?;
            let Some(name) = known.iter().find(|name| **name == key) else {
                let key: String = key.chars().take(64).collect();
                let there_are = match known {
                    [] => "this path has none".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                return Err(format!("there is no parameter `{key}`; {there_are}"));
            };
            if seen.contains(name) {
                return Err(format!("the parameter `{name}` is given twice"));
            }
            seen.push(*name);
        }
        Ok(())
    }

    /// Returns the first parameter with this name, decoded.
    pub fn parameter(&self, name: &str) -> Result<Option<Cow<'_, str>>, String> {
        for pair in self.0.uri.query().unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if decode(key, true, name).is_ok_and(|key| key == name) {
                return decode(value, true, name).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the headers' memory, to reuse it for the answer.
    pub fn into_headers(self) -> HeaderMap {
        let mut headers = self.0.headers;
        headers.clear();
        headers
    }
}

/// Replaces `%XX` by bytes, and in queries `+` by a space. The result must be UTF-8.
fn decode<'a>(text: &'a str, is_query: bool, what: &str) -> Result<Cow<'a, str>, String> {
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
                    return Err(format!(
                        "{what} has a `%` without two hexadecimal digits after it"
                    ));
                };
                (high * 16 + low) as u8
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    let text = String::from_utf8(decoded).map(Cow::Owned);
    text.map_err(|_| format!("{what} is not UTF-8 once its `%` are decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str) -> Asked {
        let request = hyper::Request::get(uri).body(()).expect("a request");
        Asked(request.into_parts().0)
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
            let error = asked.parameter("n").expect_err("malformed");
            assert!(error.starts_with("n ") && error.contains(problem), "{error}");
            let error = asked.last_segment("the key").expect_err("malformed");
            assert!(error.starts_with("the key ") && error.contains(problem), "{error}");
        }
        assert_eq!(asked("/k/a+b%2Fc").last_segment("the key").as_deref(), Ok("a+b/c"));
    }
}
