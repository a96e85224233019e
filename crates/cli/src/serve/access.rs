//! Password, certificate and key, which are read at the start and on SIGHUP.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use uidring::Timestamp;
use uidring_server::{Running, Server, TlsError, certificate_validity};
use uidring_store::{check_path, read_private_file, read_small_file};

use super::args::ServeArgs;
use crate::failure::Failure;
use crate::report;
use crate::text::span;

/// Automatic renewal of a certificate is done earlier than this.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// What the files hold.
#[derive(Default)]
pub struct Access {
    password: Option<String>,
    tls: Option<Tls>,
}

#[derive(PartialEq)]
struct Tls {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl Access {
    /// Reads the files, and applies them to the server.
    pub fn open(args: &ServeArgs, mut server: Server) -> Result<(Self, Server), Failure> {
        let access = Self { password: password(args)?, tls: tls(args)? };
        if let Some(password) = &access.password {
            server = server.password(password);
        }
        if let Some(Tls { certificates, key }) = &access.tls {
            server = server.tls(certificates, key).map_err(|error| unfit(args, &error))?;
            warn_of_validity(args, certificates)?;
        }
        Ok((access, server))
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the files again. Reports what is wrong with them, and then changes nothing.
    pub fn reload(&mut self, args: &ServeArgs, running: &Running) {
        self.reload_password(args, running)
            .unwrap_or_else(|failure| keep("the password stays as it was", failure));
        self.reload_tls(args, running)
            .unwrap_or_else(|failure| keep("certificate and key stay as they were", failure));
    }

    fn reload_password(&mut self, args: &ServeArgs, running: &Running) -> Result<(), Failure> {
        check_regular(&args.password_file)?;
        let Some(read) = password(args)? else { return Ok(()) };
        if self.password.as_ref() == Some(&read) {
            report::note("SIGHUP: the password is as it was");
        } else {
            running.replace_password(&*read);
            self.password = Some(read);
            report::note(
                "SIGHUP: the password is replaced; connections that have said the old one go on",
            );
        }
        Ok(())
    }

    fn reload_tls(&mut self, args: &ServeArgs, running: &Running) -> Result<(), Failure> {
        check_regular(&args.tls_cert)?;
        check_regular(&args.tls_key)?;
        let Some(read) = tls(args)? else { return Ok(()) };
        if self.tls.as_ref() == Some(&read) {
            report::note("SIGHUP: certificate and key are as they were");
        } else {
            self.check_is_no_worse(args, &read)?;
            running
                .replace_tls(&read.certificates, &read.key)
                .map_err(|error| unfit(args, &error))?;
            report::note("SIGHUP: certificate and key are replaced, for connections from now on");
        }
        warn_of_validity(args, &read.certificates)?;
        self.tls = Some(read);
        Ok(())
    }

    /// Refuses a certificate that clients reject now, if they accept the present one.
    fn check_is_no_worse(&self, args: &ServeArgs, new: &Tls) -> Result<(), Failure> {
        let is_taken =
            |tls: &Tls| Validity::of(args, &tls.certificates).map(|is| is.problem().is_none());
        match Validity::of(args, &new.certificates)?.problem() {
            Some(problem) if self.tls.as_ref().map_or(Ok(false), is_taken)? => {
                Err(Failure::Failed(problem))
            }
            _ => Ok(()),
        }
    }
}

fn keep(what: &str, failure: Failure) {
    report::warning(format_args!("SIGHUP: {}; {what}", failure.text()));
}

/// Refuses what is no regular file. Reading a pipe, for example, may wait for a writer, and no signal would end the
/// server.
fn check_regular(path: &Option<PathBuf>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(Failure::Failed(format!(
            "reading {}: it is no regular file, and cannot be read again",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn password(args: &ServeArgs) -> Result<Option<String>, Failure> {
    let Some(path) = &args.password_file else { return Ok(None) };
    let text = read_private_file(path).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8(text);
    let text = text.map_err(|_| Failure::Failed(format!("{} is no UTF-8 text", path.display())))?;
    // Some editors begin a text with a byte order mark. HTTP ignores spaces around a password.
    match text.trim_start_matches('\u{feff}').lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(Failure::Failed(format!("the first line of {} is empty", path.display()))),
    }
}

fn tls(args: &ServeArgs) -> Result<Option<Tls>, Failure> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Ok(Some(Tls {
        certificates: read_small_file(certificate)
            .map_err(|error| unreadable(certificate, &error))?,
        key: read_private_file(key).map_err(|error| unreadable(key, &error))?,
    }))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    match check_path("the file", path) {
        Ok(()) => Failure::Failed(format!("reading {}: {error}", path.display())),
        Err(error) => error.into(),
    }
}

fn unfit(args: &ServeArgs, error: &TlsError) -> Failure {
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    let (certificate, key) = (path(&args.tls_cert), path(&args.tls_key));
    Failure::Failed(format!("--tls-cert {certificate} and --tls-key {key}: {error}"))
}

/// When certificates are valid.
struct Validity {
    path: String,
    begin: SystemTime,
    end: SystemTime,
}

impl Validity {
    fn of(args: &ServeArgs, certificates: &[u8]) -> Result<Self, Failure> {
        let valid = certificate_validity(certificates).map_err(|error| unfit(args, &error))?;
        let path = args.tls_cert.as_ref().map(|path| path.display().to_string());
        Ok(Self { path: path.unwrap_or_default(), begin: valid.start, end: valid.end })
    }

    /// Says why clients reject them now.
    fn problem(&self) -> Option<String> {
        let (now, path) = (SystemTime::now(), &self.path);
        if self.begin > now {
            return Some(format!(
                "--tls-cert {path} is valid from {} on, and until then clients refuse it; is this host's clock right?",
                instant(self.begin)
            ));
        }
        (self.end < now).then(|| {
            let day = instant(self.end);
            format!("--tls-cert {path} has expired on {day}, and clients refuse it: renew it, and send SIGHUP")
        })
    }
}

fn instant(time: SystemTime) -> Timestamp {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(since_1970.as_millis().try_into().unwrap_or(i64::MAX))
}

/// Warns of a certificate that clients reject, or will within days.
fn warn_of_validity(args: &ServeArgs, certificates: &[u8]) -> Result<(), Failure> {
    let validity = Validity::of(args, certificates)?;
    if let Some(problem) = validity.problem() {
        report::warning(problem);
    }
    let left = validity.end.duration_since(SystemTime::now()).unwrap_or_default();
    if !left.is_zero() && left < SOON {
        report::warning(format_args!(
            "--tls-cert {} expires on {}, in {}: renew it, and send SIGHUP",
            validity.path,
            instant(validity.end),
            span(left)
        ));
    }
    Ok(())
}
