//! Runs the parser that `UIDRING_FUZZ` names.
#![no_main]

use std::env;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use uidring_fuzz::{Check, TARGETS};

static CHECK: OnceLock<Check> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let check = CHECK.get_or_init(|| {
        let wanted = env::var("UIDRING_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|(name, _)| *name == wanted);
        found.unwrap_or_else(|| panic!("UIDRING_FUZZ names no parser: {wanted:?}")).1
    });
    check(bytes);
});
