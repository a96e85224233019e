//! `uidring doctor`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use uidring::adapter::on_one_line;
use uidring_any::{Examined, Finding, Options, Verdict};

use crate::advice::with_flags;
use crate::args::url::UrlArgs;
use crate::failure::Failure;
use crate::report::{self, Form};
use crate::stdio;

/// Look for what could go wrong with a store
///
/// Says whether the store can be reached and used, whether it keeps what it has committed, whether its clock and TLS are
/// right, how many worker ids are left, and when the layout ends. It changes nothing and uses up no worker id. With several stores, it
/// also says which worker ids more than one of them hands out. The status is 1 if something has to be repaired.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring doctor
  uidring doctor 'sqlite:/tmp/doctor.db?mode=rwc&worker=lease' --format json
  uidring doctor --url-file /run/secrets/mysql-url")]
pub struct DoctorArgs {
    /// URLs of stores, with the options of their generators (`uidring help urls`)
    ///
    /// Without any, the URL in the environment variable UIDRING_URL, else the file in your data directory. Write a URL with
    /// a password into a file.
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// A further URL, as other commands take it
    #[arg(short, long = "url", value_name = "URL")]
    url: Vec<String>,

    /// A file whose first line is such a URL; may be given several times
    #[arg(long, value_name = "PATH")]
    url_file: Vec<PathBuf>,

    /// How the findings are printed
    #[arg(long, default_value = "text")]
    format: Form,
}

pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let urls = args.urls.iter().chain(&args.url).cloned();
    let urls = urls.map(|url| UrlArgs { url: Some(url), url_file: None });
    let files = args.url_file.iter().cloned();
    let files = files.map(|file| UrlArgs { url: None, url_file: Some(file) });
    let mut all: Vec<_> = urls.chain(files).collect();
    if all.is_empty() {
        all.push(UrlArgs::default());
    }
    // Read all URLs before connecting to the first store.
    let all = all.into_iter().map(|url| Ok((url.flags(), url.options([])?)));
    let all: Vec<(String, Options)> = all.collect::<Result<_, Failure>>()?;
    let mut examined: Vec<_> =
        all.into_iter().map(|(flags, options)| examine(&flags, options)).collect();
    for index in 0..examined.len() {
        let (before, rest) = examined.split_at_mut(index);
        let overlaps: Vec<_> = before.iter().filter_map(|other| other.overlap(&rest[0])).collect();
        rest[0].findings.extend(overlaps);
    }
    stdio::print(&match args.format {
        Form::Text => examined.iter().map(text).collect::<Vec<_>>().join("\n"),
        Form::Json => Value::from_iter(examined.iter().map(as_json)).to_string(),
    })?;
    let mut findings = examined.iter().flat_map(|examined| &examined.findings);
    let is_good = findings.all(|finding| finding.verdict != Verdict::Fault);
    if is_good { Ok(()) } else { Err(Failure::Reported) }
}

/// Examines a store, and adds its flags to the commands that the findings name.
fn examine(flags: &str, options: Options) -> Examined {
    let mut examined = options.examine();
    for finding in &mut examined.findings {
        finding.text = with_flags(&finding.text, flags);
    }
    examined
}

fn text(examined: &Examined) -> String {
    let line = |finding: &Finding| {
        let text = on_one_line(&finding.text);
        format!("  {:<4}  {}: {text}", word(finding.verdict), finding.about)
    };
    let is_shown = |finding: &&Finding| !report::is_quiet() || finding.verdict != Verdict::Good;
    let lines = examined.findings.iter().filter(is_shown).map(line);
    std::iter::once(on_one_line(&examined.place)).chain(lines).collect::<Vec<_>>().join("\n")
}

fn as_json(examined: &Examined) -> Value {
    let findings = examined.findings.iter().map(|finding| {
        json!({"about": finding.about, "verdict": word(finding.verdict), "text": finding.text})
    });
    json!({"store": examined.place, "findings": Value::from_iter(findings)})
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Risk => "risk",
        Verdict::Fault => "fix",
    }
}
