//! A blocking client of a cluster: requests to one endpoint after another until a deadline.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use uidring::Error;
use uidring::adapter::{Chain, Deadline, log};
use uidring_store::{Credentials, warn_once};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::EtcdStore;
use crate::key_value::{Answer, answer, transaction};
use crate::problem::{Action, Problem};

/// The first pause between two rounds over all endpoints; each further one is twice as long, up to the
/// last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Less is too little for an fsync on a busy disk: the deadline may then end after fewer endpoints, and later
/// work begins with the next.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// What an answer may be long: ten thousand leases have 5 MB.
const MAX_ANSWER: u64 = 256 << 20;

/// A connection that was idle for longer may have been forgotten by something in between.
const MAX_IDLE: Duration = Duration::from_secs(15);

/// Opens connections when it needs them, and keeps them.
pub struct Client {
    store: EtcdStore,
    /// Made by the first request.
    agent: Option<Agent>,
    /// What etcd returned for user and password.
    token: Option<String>,
    /// The endpoint that answered last.
    endpoint: usize,
    /// Those who come again by themselves log what fails.
    is_quiet: bool,
    /// In another process, a forked child, connections are the parent's.
    process: u32,
    end: Deadline,
    /// How many times all endpoints were asked for the present work.
    rounds: u32,
}

impl Client {
    pub fn new(store: &EtcdStore) -> Self {
        Self {
            agent: None,
            token: None,
            // Clients spread over the members.
            endpoint: fastrand::usize(..store.endpoints.len()),
            is_quiet: false,
            process: process::id(),
            end: Deadline::after(None),
            rounds: 0,
            store: store.clone(),
        }
    }

    pub fn store(&self) -> &EtcdStore {
        &self.store
    }

    /// Lets no later work take longer than this, and log nothing.
    pub fn limit(&mut self, limit: Duration) {
        self.store.deadline = self.store.deadline.min(limit);
        self.is_quiet = true;
    }

    /// Does the work. After a failure that may pass it does all of it once more, on another endpoint,
    /// until the deadline: what the work did before may or may not have been executed.
    pub fn run<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        self.store.check()?;
        let limit = self.store.deadline;
        self.end = Deadline::after(Some(limit));
        self.rounds = 0;
        let mut pause = FIRST_PAUSE;
        let mut first = None;
        for attempt in 1_usize.. {
            let problem = match work(self) {
                Ok(done) => return Ok(done),
                Err(problem) => problem,
            };
            match problem.action() {
                Action::Fail => return Err(problem.error(self.store.to_string(), limit)),
                Action::LogIn => self.token = None,
                Action::Retry => self.endpoint = (self.endpoint + 1) % self.store.endpoints.len(),
            }
            let is_round = attempt.is_multiple_of(self.store.endpoints.len());
            // Starts that met the same failure at once should not come back at once.
            let next =
                if is_round { pause.mul_f64(0.5 + fastrand::f64() / 2.0) } else { Duration::ZERO };
            if self.left() <= next {
                // An attempt that the deadline cut short says less than one before.
                let problem = first.filter(|_| self.left().is_zero()).unwrap_or(problem);
                return Err(problem.error(self.store.to_string(), limit));
            }
            if attempt == 1 && !self.is_quiet && !matches!(problem, Problem::Contended) {
                log!(warn, "{}; trying again for up to {limit:?}", Told(&problem, &self.store));
            }
            first.get_or_insert(problem);
            thread::sleep(next);
            if is_round {
                self.rounds += 1;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
        unreachable!("a deadline comes before so many attempts")
    }

    /// Sends a transaction.
    pub fn transact(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
    ) -> Result<Answer, Problem> {
        if let (None, Some(Credentials { user, password })) = (&self.token, &self.store.login) {
            if let Some(warning) = self.store.password().warning() {
                warn_once(format!("etcd {}: {warning}", self.store));
            }
            let login = json!({"name": user, "password": password});
            let body = self.post("auth/authenticate", &login)?;
            let token = body["token"].as_str().ok_or(Problem::NotEtcd { status: 200 })?;
            self.token = Some(token.to_owned());
        }
        answer(&self.post("kv/txn", &transaction(compare, success, failure))?)
    }

    /// Returns what an endpoint says of its member.
    pub fn status(&mut self) -> Result<Value, Problem> {
        self.post("maintenance/status", &json!({}))
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<Value, Problem> {
        let EtcdStore { endpoints, attempt_timeout, deadline, .. } = &self.store;
        let share = *deadline / u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        // Where all are slow, to ask them again and again keeps them from ever answering.
        let attempt = attempt_timeout.saturating_mul(1 << self.rounds.min(10));
        let patience = share.max(LEAST_PATIENCE).min(attempt).min(self.left());
        let agent = self.agent.get_or_insert_with(|| agent(&self.store));
        let mut request = agent
            .post(format!("{}/v3/{path}", endpoints[self.endpoint]))
            .config()
            .timeout_global(Some(patience.max(Duration::from_millis(1))))
            .build()
            .content_type("application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        let mut response = request.send(body.to_string())?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec()?;
        let Ok(body) = serde_json::from_slice::<Value>(&text) else {
            // A server that is told to speak TLS, or speaks it where it is not, answers in plain text.
            return Err(Problem::NotEtcd { status });
        };
        if status == 200 {
            return Ok(body);
        }
        let code = body["code"].as_i64();
        let message = body["message"].as_str().or_else(|| body["error"].as_str());
        match (code, message) {
            (Some(code), Some(message)) => {
                Err(Problem::Refused { code, message: message.to_owned() })
            }
            _ => Err(Problem::NotEtcd { status }),
        }
    }

    fn left(&self) -> Duration {
        self.end.remaining().unwrap_or(self.store.deadline)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if process::id() != self.process {
            // Another thread of the parent may have held the pool's lock when this child was forked.
            mem::forget(self.agent.take());
        }
    }
}

fn agent(store: &EtcdStore) -> Agent {
    let roots = match &store.authorities {
        Some(authorities) => RootCerts::new_with_certs(authorities),
        None => RootCerts::WebPki,
    };
    let tls = TlsConfig::builder().root_certs(roots).client_cert(store.client_certificate.clone());
    Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_age(MAX_IDLE)
        // What the environment says of proxies is not for etcd.
        .proxy(None)
        .build()
        .new_agent()
}

/// A problem as the log shows it.
struct Told<'a>(&'a Problem, &'a EtcdStore);

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what: &dyn std::fmt::Display = match self.0 {
            Problem::Http(error) => &Chain(&**error).to_string(),
            Problem::Refused { message, .. } => message,
            Problem::NotEtcd { status } => &format!("HTTP status {status}"),
            _ => &"busy",
        };
        write!(f, "etcd {}: {what}", self.1)
    }
}
