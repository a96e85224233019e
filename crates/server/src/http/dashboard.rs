//! `/`: one self-contained page, which asks for the token if necessary, and shows `/v1/events`.

use super::answer::{self, Answer};

const PAGE: &str = include_str!("dashboard.html");

/// Allows only the page's own style and script, by their hashes, and requests to this server.
const POLICY: &str = "default-src 'none'; \
    style-src 'sha256-+ACT4TjAtOT5cOXFhZ505mR+UVdk8YQwwp0/7JILJ3Y='; \
    script-src 'sha256-4Tzc0rieFEP8R2+1vaQ97EC50pp069ZpUOINOg2g7/k='; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn page() -> Answer {
    answer::page(POLICY, PAGE)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_policy_has_the_hashes_of_the_page() {
        for tag in ["style", "script"] {
            let (_, rest) = PAGE.split_once(&format!("<{tag}>")).expect("it begins");
            let (text, rest) = rest.split_once(&format!("</{tag}>")).expect("it ends");
            assert!(!rest.contains(&format!("<{tag}")), "there is one {tag}");
            let hash = format!("{tag}-src 'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
            assert!(POLICY.contains(&hash), "POLICY has to say: {hash}");
        }
        assert!(!POLICY.contains("unsafe"));
    }
}
