//! An error with its causes, on one line.

use std::error::Error as StdError;
use std::fmt;

use crate::text::on_one_line;

/// Displays an error and its causes as `message: cause: cause`. Debug prints the same with invisible characters
/// escaped.
///
/// Leaves out a cause whose text is already on the line, because some drivers repeat their sources.
pub struct Chain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            next = cause.source();
        }
        f.write_str(&line)
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&on_one_line(&self.to_string()))
    }
}

/// Implements what all errors share. Their `Debug` is [`Chain`], which must be in scope, so that a `main` that returns
/// an error prints that. They are unwind-safe: an error and its causes are only read once made, so no panic leaves one
/// half changed.
#[doc(hidden)]
#[macro_export]
macro_rules! __error_traits {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(&Chain(self), f)
            }
        }

        impl ::std::panic::UnwindSafe for $error {}
        impl ::std::panic::RefUnwindSafe for $error {}
    };
}
pub use __error_traits as error_traits;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_text_is_on_the_line_once() {
        for (text, line) in [("no commit", "no commit: disk full"), ("disk full", "disk full")] {
            let error = Layer { text, source: io::Error::other("disk full") };
            assert_eq!(Chain(&error).to_string(), line);
            assert_eq!(format!("{:?}", Chain(&error)), line);
        }
    }

    #[test]
    fn debug_is_one_line() {
        let error = Layer { text: "no file\n`\u{1b}ä`", source: io::Error::other("gone\r\n") };
        assert_eq!(format!("{:?}", Chain(&error)), "no file\\n`\\u{1b}ä`: gone\\r\\n");
    }
}
