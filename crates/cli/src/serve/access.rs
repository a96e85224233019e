//! Password, certificate and key, which are read at the start and on SIGHUP.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uidring::Timestamp;
use uidring::clock::{Clock, SystemClock};
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
    /// The paths of certificate and key, as given.
    paths: [PathBuf; 2],
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl Access {
    /// Reads the files, and applies them to the server.
    pub fn open(args: &ServeArgs, mut server: Server) -> Result<(Self, Server), Failure> {
        let access = Self { password: password(args)?, tls: Tls::read(args)? };
        if let Some(password) = &access.password {
            server = server.password(password);
        }
        if let Some(tls) = &access.tls {
            server = server.tls(&tls.certificates, &tls.key).map_err(|error| tls.unfit(&error))?;
            tls.warn_of_validity()?;
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
        let Some(read) = Tls::read(args)? else { return Ok(()) };
        if self.tls.as_ref() == Some(&read) {
            report::note("SIGHUP: certificate and key are as they were");
        } else {
            // Refuse a certificate that clients would reject, if they accept the present one.
            if let Some(problem) = read.problem()?
                && let Some(present) = &self.tls
                && present.problem()?.is_none()
            {
                return Err(Failure::Failed(problem));
            }
            running
                .replace_tls(&read.certificates, &read.key)
                .map_err(|error| read.unfit(&error))?;
            report::note("SIGHUP: certificate and key are replaced, for connections from now on");
        }
        read.warn_of_validity()?;
        self.tls = Some(read);
        Ok(())
    }
}

fn keep(what: &str, failure: Failure) {
    report::warning(format_args!("SIGHUP: {}; {what}", failure.text()));
}

/// Refuses what is no regular file. Reading a pipe, for example, may wait for a writer, and no signal would end the
/// server.
fn check_regular(path: &Option<PathBuf>) -> Result<(), Failure> {
    match path.as_ref().map(|path| (path, fs::metadata(path))) {
        Some((path, Ok(found))) if !found.is_file() => Err(Failure::Failed(format!(
            "reading {}: it is no regular file, and cannot be read again",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn password(args: &ServeArgs) -> Result<Option<String>, Failure> {
    let Some(path) = &args.password_file else { return Ok(None) };
    let text = read(path, read_private_file)?;
    let text = String::from_utf8(text);
    let text = text.map_err(|_| Failure::Failed(format!("{} is no UTF-8 text", path.display())))?;
    // Some editors begin a text with a byte order mark. HTTP ignores spaces around a password.
    match text.trim_start_matches('\u{feff}').lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(Failure::Failed(format!("the first line of {} is empty", path.display()))),
    }
}

fn read(path: &Path, read: fn(&Path) -> io::Result<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    read(path).map_err(|error| match check_path("the file", path) {
        Ok(()) => Failure::Failed(format!("reading {}: {error}", path.display())),
        Err(error) => error.into(),
    })
}

impl Tls {
    fn read(args: &ServeArgs) -> Result<Option<Self>, Failure> {
        let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
            return Ok(None);
        };
        Ok(Some(Self {
            paths: [certificate.clone(), key.clone()],
            certificates: read(certificate, read_small_file)?,
            key: read(key, read_private_file)?,
        }))
    }

    fn unfit(&self, error: &TlsError) -> Failure {
        let [certificate, key] = self.paths.each_ref().map(|path| path.display());
        Failure::Failed(format!("--tls-cert {certificate} and --tls-key {key}: {error}"))
    }

    /// Returns when the certificates become valid, and when they expire.
    fn validity(&self) -> Result<[Timestamp; 2], Failure> {
        let valid = certificate_validity(&self.certificates);
        let valid = valid.map_err(|error| self.unfit(&error))?;
        Ok([valid.start.into(), valid.end.into()])
    }

    /// Says why clients reject the certificates now.
    fn problem(&self) -> Result<Option<String>, Failure> {
        let ([begin, end], now) = (self.validity()?, SystemClock.now());
        let path = self.paths[0].display();
        Ok(match () {
            () if begin > now => Some(format!(
                "--tls-cert {path} is valid from {begin} on, and until then clients refuse it; is this host's clock right?"
            )),
            () if end < now => Some(format!(
                "--tls-cert {path} has expired on {end}, and clients refuse it: renew it, and send SIGHUP"
            )),
            () => None,
        })
    }

    /// Warns of certificates that clients reject, or will within days.
    fn warn_of_validity(&self) -> Result<(), Failure> {
        if let Some(problem) = self.problem()? {
            report::warning(problem);
        }
        let [_, end] = self.validity()?;
        let left = end.saturating_since(SystemClock.now());
        if !left.is_zero() && left < SOON {
            report::warning(format_args!(
                "--tls-cert {} expires on {end}, in {}: renew it, and send SIGHUP",
                self.paths[0].display(),
                span(left)
            ));
        }
        Ok(())
    }
}
