//! An error with its causes, on one line.

use std::error::Error as StdError;
use std::fmt;

/// Displays an error and its causes as `message: cause: cause`.
///
/// It leaves out a cause whose text is on the line already: some drivers repeat their own sources.
#[derive(Debug)]
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
        }
    }
}
