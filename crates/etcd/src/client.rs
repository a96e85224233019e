//! A blocking client of a cluster, which tries one endpoint after another until a deadline.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use uidring::Error;
use uidring::adapter::{Deadline, log};
use uidring_store::{Credentials, warn_once};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::EtcdStore;
use crate::key_value::{Answer, answer};
use crate::problem::Problem;

/// The first pause between two rounds over all endpoints. It doubles each round, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The least time for one endpoint: less is too short for an fsync on a busy disk. If the deadline passes before all
/// endpoints were tried, the next operation goes on with the next one.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// The greatest length of an answer. Ten thousand leases have 5 MB.
const MAX_ANSWER: u64 = 256 << 20;

/// A connection idle for longer may have been dropped by something in between.
const MAX_IDLE: Duration = Duration::from_secs(15);

pub struct Client {
    pub store: EtcdStore,
    /// Made by the first request.
    agent: Option<Agent>,
    /// The token that etcd returned for user and password.
    token: Option<String>,
    /// The endpoint that answered last.
    endpoint: usize,
    /// Does not log failures, because the caller retries by itself.
    is_quiet: bool,
    /// The process that opened the connections. A forked child must not use them.
    process: u32,
    end: Deadline,
    /// Rounds over all endpoints in the current operation.
    rounds: u32,
}

impl Client {
    pub fn new(store: &EtcdStore) -> Self {
        Self {
            agent: None,
            token: None,
            // Spread clients over the members.
            endpoint: fastrand::usize(..store.endpoints.len()),
            is_quiet: false,
            process: process::id(),
            end: Deadline::after(None),
            rounds: 0,
            store: store.clone(),
        }
    }

    /// Limits all later operations to this time, and stops logging.
    pub fn limit(&mut self, limit: Duration) {
        self.store.deadline = self.store.deadline.min(limit);
        self.is_quiet = true;
    }

    /// Runs `work` until it succeeds, fails for good, or the deadline passes. Each retry repeats all of it, on the next
    /// endpoint or after logging in again. Earlier attempts may or may not have been executed.
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
            if problem.is_logged_out() {
                self.token = None;
            } else if problem.may_pass() {
                self.endpoint = (self.endpoint + 1) % self.store.endpoints.len();
            } else {
                return Err(problem.error(&self.store));
            }
            let is_round = attempt.is_multiple_of(self.store.endpoints.len());
            // Jitter, so that processes that failed together do not retry together.
            let next =
                if is_round { pause.mul_f64(0.5 + fastrand::f64() / 2.0) } else { Duration::ZERO };
            if self.left() <= next {
                // An attempt that the deadline cut short says less than an earlier one.
                let problem = first.filter(|_| self.left().is_zero()).unwrap_or(problem);
                return Err(problem.error(&self.store));
            }
            if attempt == 1 && !self.is_quiet && !matches!(problem, Problem::Contended) {
                let (store, brief) = (&self.store, problem.brief());
                log!(warn, "etcd {store}: {brief}; trying again for up to {limit:?}");
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
        let transaction = json!({"compare": compare, "success": success, "failure": failure});
        answer(&self.post("kv/txn", &transaction)?).ok_or(Problem::NotEtcd { status: 200 })
    }

    /// Sends a request to one endpoint.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Value, Problem> {
        let EtcdStore { endpoints, attempt_timeout, deadline, .. } = &self.store;
        let share = *deadline / u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        // If all are slow, asking again at the same pace would keep them from ever answering.
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
            // A server answers in plain text if only one side uses TLS.
            return Err(Problem::NotEtcd { status });
        };
        if status == 200 {
            return Ok(body);
        }
        let code = body["code"].as_i64();
        let message = body["message"].as_str().or_else(|| body["error"].as_str());
        let Some((code, message)) = code.zip(message) else {
            return Err(Problem::NotEtcd { status });
        };
        Err(Problem::Refused { code, message: message.to_owned() })
    }

    fn left(&self) -> Duration {
        self.end.remaining().unwrap_or(self.store.deadline)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if process::id() != self.process {
            // Another thread of the parent may have held the pool's lock at the fork.
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
        // Ignore the environment's proxies.
        .proxy(None)
        .build()
        .new_agent()
}
