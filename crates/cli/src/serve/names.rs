//! The names that a server's settings define.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::may_have_url;
use uidring::generator::CachedBuilder;
use uidring::policy::TakePolicy;
use uidring::segment::{Loaded, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{CachedUidGenerator, Error, PerThreadGenerator, SegmentGenerator, StoreErrorKind};
use uidring_any::{AnyStore, Options, Prepared, ServerError, StoreUse, TableError, WorkerKind};
use uidring_server::{Issuer, Names};
use uidring_store::warn_if_exposed;

use super::args::ServeArgs;
use super::config::{File, Settings};
use crate::advice::with_flags;
use crate::args::layout::ResolvedLayout;
use crate::args::url::{UrlArgs, set_flags, wrong};
use crate::failure::Failure;
use crate::report;

/// The name of the uids of the flags and of the settings above all tables.
const DEFAULT: &str = "uid";

/// How often the tags of segments are read. A new tag is served after this.
const REFRESH: Duration = Duration::from_secs(10);

/// How far ahead of the clock clients may push uids. See docs/time.md.
const MAX_BORROW: Duration = Duration::from_secs(3_600);

/// How many names to list; more are only counted.
pub const SHOWN: usize = 12;

/// Names whose settings are checked. Nothing is used up yet.
pub struct Plan<'a> {
    pub args: &'a ServeArgs,
    pub uids: Vec<Uids<'a>>,
    /// The store whose segments are served, if any.
    pub segments: Option<Box<dyn AnyStore>>,
    /// The flags that name the store of the flags' own uids.
    flags: String,
}

/// A generator of uids, and its name.
pub struct Uids<'a> {
    pub name: &'a str,
    /// Whether each serving thread counts through blocks of its own.
    is_per_thread: bool,
    pub layout: ResolvedLayout,
    worker: WorkerKind,
    /// What it needs from its store.
    pub wanted: StoreUse,
    /// The source of the worker id; `None` if it is chosen.
    pub store: Option<Box<dyn AnyStore>>,
    builder: CachedBuilder,
    /// The flags that name its store, for advice.
    flags: String,
}

impl<'a> Plan<'a> {
    /// Checks the settings of all names.
    pub fn new(args: &'a ServeArgs, file: &'a File) -> Result<Self, Failure> {
        let flags = url_of_file(args, file)?.unwrap_or(&args.url).flags();
        let own = own_options(args, file)?;
        let segments = if args.limits.no_segments { None } else { segments_of(&own)? };
        let own = match args.start_after {
            Some(uid) => own.start_after(uid),
            None => own,
        };
        let mut uids = vec![Uids::new(DEFAULT, own, flags.clone(), false)?];
        for (name, settings) in &file.names {
            if name == DEFAULT {
                return Err(Failure::Usage(format!(
                    "[names.{DEFAULT}]: the settings of `{DEFAULT}` stand above all tables"
                )));
            }
            let its_flags = settings.url.as_ref().map_or_else(|| flags.clone(), UrlArgs::flags);
            let named = named_options(args, file, settings)
                .and_then(|options| Uids::new(name, options, its_flags, settings.url.is_none()));
            uids.push(named.map_err(|failure| about(name, failure))?);
        }
        Ok(Self { args, uids, segments, flags })
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.uids.iter().map(|uids| uids.name).collect()
    }

    /// Acquires worker ids. Returns the names, and a line about each.
    pub fn open(self) -> Result<(Names, Vec<String>), Failure> {
        let own = self.names();
        let Self { args: settings, uids, segments: store, flags } = self;
        let mut names = Names::new();
        let mut lines = Vec::new();
        for uids in uids {
            let origin = uids.origin();
            let (name, is_per_thread, layout) = (uids.name, uids.is_per_thread, uids.layout);
            let generator = uids.build(settings.limits.wait)?;
            lines.push(format!(
                "{name}: layout {}, {} from {origin}",
                layout.layout,
                layout.worker(generator.worker_id())
            ));
            let generator = Arc::new(generator);
            let issuer = match is_per_thread {
                false => Issuer::Ordered(generator),
                true => Issuer::PerThread(PerThreadGenerator::new(generator)),
            };
            names = names.with(name, issuer).with_origin(name, &origin);
        }
        if let Some(store) = store {
            let open = || -> Result<_, Error> {
                let builder = SegmentGenerator::builder(UntilCreated(store.segment_store()?));
                let builder = builder.take_policy(TakePolicy::WaitFor(settings.limits.wait));
                Ok((builder.refresh(REFRESH).build()?, store.segment_table()?))
            };
            let (segments, table) = open().map_err(|error| Failure::from(error).advised(&flags))?;
            let mut tags = segments.tags().unwrap_or_default();
            tags.sort();
            warn_of_hidden_tags(&own, &tags);
            tags.retain(|tag| !own.contains(&&**tag));
            let line = match &*tags {
                [] => {
                    "no tags of segments; `uidring segment create TAG --step S` creates one".into()
                }
                tags if tags.len() <= SHOWN => format!("tags of segments: {}", tags.join(", ")),
                tags => format!(
                    "{} tags of segments: {}, … (`uidring segment list` shows all)",
                    tags.len(),
                    tags[..SHOWN].join(", "),
                ),
            };
            lines.push(with_flags(&line, &flags));
            names = names.with_segments(Arc::new(segments)).with_rows(move || table.list_tags());
        }
        Ok((names, lines))
    }
}

/// The URL above the file's tables, unless a flag or the environment names another.
fn url_of_file<'a>(args: &ServeArgs, file: &'a File) -> Result<Option<&'a UrlArgs>, Failure> {
    match &file.settings.url {
        Some(url) if !args.url.is_given()? => Ok(Some(url)),
        _ => Ok(None),
    }
}

/// The options of the flags, and of what stands above the file's tables.
fn own_options(args: &ServeArgs, file: &File) -> Result<Options, Failure> {
    let options = match url_of_file(args, file)? {
        Some(url) => set_flags(at(url, file)?, args.options.given())?,
        None => args.url.options(args.options.given())?,
    };
    let is_flag = |name: &str| args.options.given().any(|(given, _)| given == name);
    let beside = file.settings.options.iter().filter(|(name, _)| !is_flag(name));
    set_all(options, beside, &file.place)
}

/// The options of a name: its own over those above the tables, or its own alone if it has a URL.
fn named_options(args: &ServeArgs, file: &File, settings: &Settings) -> Result<Options, Failure> {
    let options = match &settings.url {
        Some(url) => at(url, file)?,
        None => {
            let own = own_options(args, file)?;
            settings.options.iter().fold(own, |options, (name, _)| options.unset(name))
        }
    };
    set_all(options, settings.options.iter(), &file.place)
}

/// The options of a URL of the file.
fn at(url: &UrlArgs, file: &File) -> Result<Options, Failure> {
    let place = &file.place;
    match &url.url {
        Some(url) => {
            let options = Options::from_settings(url, place).map_err(wrong)?;
            if options.has_password() {
                warn_if_exposed(&file.path);
            }
            Ok(options)
        }
        None => {
            let is_relative =
                |path: &PathBuf| path.is_relative() && !may_have_url(&path.to_string_lossy());
            if url.url_file.as_ref().is_some_and(is_relative) {
                return Err(Failure::Usage(format!(
                    "the path of `url-file` {place} is relative, and would mean another file in another folder; write an \
                     absolute path"
                )));
            }
            url.options([])
        }
    }
}

fn set_all<'a>(
    options: Options,
    mut settings: impl Iterator<Item = &'a (String, String)>,
    place: &str,
) -> Result<Options, Failure> {
    let set = |options: Options, (name, value): &(String, String)| {
        options.set_as(&format!("`{name}` {place}"), name, value)
    };
    settings.try_fold(options, set).map_err(wrong)
}

/// Warns of tags that no client can reach.
pub fn warn_of_hidden_tags(names: &[&str], tags: &[String]) {
    for tag in tags.iter().filter(|tag| names.contains(&&***tag)) {
        report::warning(format_args!(
            "the tag `{tag}` is not served: the name `{tag}` is that of uids, and comes first; rename one of them"
        ));
    }
}

/// The store whose segments are served: that of the worker ids, unless it has no segments or belongs to one pod.
fn segments_of(options: &Options) -> Result<Option<Box<dyn AnyStore>>, Failure> {
    // Each pod's file would hand out the same ids.
    let has_none = [WorkerKind::Chosen, WorkerKind::Registered, WorkerKind::Ordinal];
    if has_none.contains(&options.worker_kind()) {
        return Ok(None);
    }
    let store = options.store().map_err(wrong)?;
    match store.segment_store() {
        Ok(_) => Ok(Some(store)),
        Err(error) if matches!(error.store(), Some(TableError::Lacks { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Has no tags until somebody creates the table.
struct UntilCreated(Box<dyn SegmentStore>);

impl SegmentStore for UntilCreated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        match self.0.tags() {
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => Ok(Vec::new()),
            tags => tags,
        }
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.0.load(wanted, loaded);
    }
}

/// Adds the name of the table to a failure.
pub fn about(name: &str, failure: Failure) -> Failure {
    match name {
        DEFAULT => failure,
        name => failure.about(&format!("names.{name}")),
    }
}

impl<'a> Uids<'a> {
    /// Checks the options. `inherits` says whether they include those above the tables.
    fn new(
        name: &'a str,
        options: Options,
        flags: String,
        inherits: bool,
    ) -> Result<Self, Failure> {
        if options.get("take").is_some() {
            return Err(Failure::Usage(
                "`take` is not for a server: --wait says how long requests wait".into(),
            ));
        }
        let layout = ResolvedLayout::of(&options);
        layout.check_now()?;
        let worker = options.worker_kind();
        let wanted = options.store_use().map_err(wrong)?;
        let store = match worker {
            WorkerKind::Chosen => None,
            _ => Some(options.store().map_err(wrong)?),
        };
        // Ids of two names may be equal, so each name is a namespace.
        let is_own = options.get("namespace").is_none();
        // Worker ids that are given back have their own limit.
        let is_limited = options.get("max-borrow").is_some() || worker.is_given_back();
        let prepared = options.prepare().map_err(|error| {
            let do_not_fit = matches!(error.store(), Some(ServerError::Options { .. }));
            match wrong(error).advised(&flags) {
                Failure::Usage(why) if inherits && do_not_fit => Failure::Usage(format!(
                    "{why}; the options above the tables apply here too, unless this table has a `url` of its own"
                )),
                failure => failure,
            }
        })?;
        let (builder, is_per_thread) = match prepared {
            Prepared::Cached(builder) => (builder, false),
            Prepared::PerThread(builder) => (builder, true),
            _ => {
                return Err(Failure::Usage(
                    "a server has generator=cached; it serves the tags of its store besides".into(),
                ));
            }
        };
        let builder = if is_own { builder.namespace(name) } else { *builder };
        let builder = if is_limited { builder } else { builder.max_borrow(MAX_BORROW) };
        Ok(Self { name, is_per_thread, layout, worker, wanted, store, builder, flags })
    }

    /// Builds the generator. Its takes wait at most this long.
    pub fn build(self, wait: Duration) -> Result<CachedUidGenerator, Failure> {
        let built = self.builder.take_policy(TakePolicy::WaitFor(wait)).build();
        built.map_err(|error| about(self.name, Failure::from(error).advised(&self.flags)))
    }

    /// Where worker ids come from, for people.
    fn origin(&self) -> String {
        let place = match &self.store {
            Some(store) => store.to_string(),
            None => return "the URL".into(),
        };
        match self.worker {
            WorkerKind::Leased => format!("a lease of {place}"),
            WorkerKind::Ordinal => format!("the ordinal, by a lease of {place}"),
            _ => place,
        }
    }
}
