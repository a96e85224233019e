//! The parameters of a URL, of which nothing that may be secret is repeated.

/// Refuses a parameter that is given twice: readers differ in which one counts.
///
/// # Errors
///
/// What is wrong.
pub fn check_once(parameters: &str) -> Result<(), String> {
    let mut names: Vec<_> = parameters
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| parameter.split_once('=').map_or(parameter, |(name, _)| name))
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the parameter{} is given twice", shown(pair[0]))),
        None => Ok(()),
    }
}

/// Returns the name of a parameter for a text, with a blank before it. Anything but a word may be the end of a
/// password that should have been percent-encoded, and is not shown.
pub fn shown(name: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word && !name.is_empty() { format!(" `{name}`") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_given_once() {
        for parameters in ["", "a=1", "a=1&&b=1", "a=b&b=a"] {
            assert_eq!(check_once(parameters), Ok(()), "{parameters}");
        }
        let twice = |parameters| check_once(parameters).expect_err("twice");
        assert_eq!(twice("a=1&b=2&a=1"), "the parameter `a` is given twice");
        assert_eq!(twice("a&b&a=1"), "the parameter `a` is given twice");
        assert_eq!(twice("S3cret=1&S3cret=2"), "the parameter is given twice");
    }
}
