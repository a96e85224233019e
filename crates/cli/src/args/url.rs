//! Flags that name a store, or a worker id.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use uidring_any::{AnyStore, Options, ServerError};
use uidring_store::quoted;

use crate::failure::Failure;
use crate::report;

/// Where ids come from.
#[derive(Args, Default)]
pub struct UrlArgs {
    /// The URL of a store, or worker:N (`uidring help urls`)
    ///
    /// Without it, the URL in the environment variable UIDRING_URL, else a file in your data directory.
    /// Other users of this machine can see it in the list of processes: write a URL with a password into a file, and name
    /// the file with --url-file.
    #[arg(short, long, value_name = "URL", conflicts_with = "url_file")]
    pub url: Option<String>,

    /// A file whose first line is such a URL
    #[arg(long, value_name = "PATH")]
    pub url_file: Option<PathBuf>,
}

/// The warning of a password was printed. Printed once, although a server reads the URL for each name.
static IS_WARNED: AtomicBool = AtomicBool::new(false);

/// The URL without flag and environment variable.
const DEFAULT: &str = "sqlite:";

impl UrlArgs {
    /// Returns the options of the URL and of flags. Each flag has its name.
    pub fn options<'a>(
        &self,
        flags: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Options, Failure> {
        let options = match (&self.url, &self.url_file) {
            (Some(url), _) => {
                let options = Options::from_url(url).map_err(wrong)?;
                if options.has_password() && !IS_WARNED.swap(true, Ordering::Relaxed) {
                    report::warning(
                        "other users of this machine can see the URL's password in the list of processes: \
                         write the URL into a file, and name that with --url-file",
                    );
                }
                options
            }
            (None, Some(path)) => Options::from_file(path).map_err(wrong)?,
            (None, None) => Options::from_env_or(DEFAULT).map_err(wrong)?,
        };
        set_flags(options, flags)
    }

    pub fn store(&self) -> Result<Box<dyn AnyStore>, Failure> {
        self.options([])?.store().map_err(wrong)
    }

    /// Whether a flag or the environment names the store.
    pub fn is_given(&self) -> Result<bool, Failure> {
        let by_flag = self.url.is_some() || self.url_file.is_some();
        Ok(by_flag || Options::is_in_env().map_err(wrong)?)
    }

    /// Returns the flags as written on a command line. A URL that may hold a password is replaced by `URL`.
    pub fn flags(&self) -> String {
        match (&self.url, &self.url_file) {
            (Some(url), _) => match Options::from_url(url) {
                Ok(options) if !options.has_password() => format!("-u {}", quoted(url)),
                _ => "-u URL".into(),
            },
            (None, Some(path)) => format!("--url-file {}", quoted(&path.to_string_lossy())),
            (None, None) => String::new(),
        }
    }
}

/// Adds flags to the options, each with its name.
pub fn set_flags<'a>(
    options: Options,
    flags: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Options, Failure> {
    let set = |options: Options, (name, value): (&str, &str)| {
        options.set_as(&format!("--{name}"), name, value)
    };
    flags.into_iter().try_fold(options, set).map_err(wrong)
}

/// Converts an error. Wrong options are wrong usage, wherever they were found; a file that cannot be read is a failure.
pub fn wrong(error: uidring::Error) -> Failure {
    let is_written =
        matches!(error.store(), Some(ServerError::Address { .. } | ServerError::Options { .. }))
            || matches!(
                error,
                uidring::Error::Environment { .. } | uidring::Error::RingTooLarge { .. }
            );
    if is_written { Failure::usage(error) } else { error.into() }
}
