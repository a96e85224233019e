//! System clocks that std does not read. They are here, not with the other clocks, because reading them takes unsafe
//! code.

use std::time::Duration;

/// Returns the time since the machine was started, time in suspension included. `None` if the system has
/// no such clock.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn boot_time() -> Option<Duration> {
    // On Apple's systems, this clock counts suspended time; `Instant` reads another one.
    #[cfg(target_vendor = "apple")]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    read(CLOCK)
}

/// Returns the milliseconds since the machine was started, time in suspension excluded, up to 10 ms late. All
/// processes of a time namespace read the same clock.
#[cfg(target_os = "linux")]
pub(crate) fn coarse_millis() -> u64 {
    let time = read(libc::CLOCK_MONOTONIC_COARSE).unwrap_or_default();
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn coarse_millis() -> u64 {
    0
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn read(clock: libc::clockid_t) -> Option<Duration> {
    #![allow(unsafe_code)]

    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to a timespec of our own. The call writes to it, and keeps no pointer.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has written all of it.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanos))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn boot_time() -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    /// The first number in `/proc/uptime` counts suspended time.
    #[test]
    #[cfg_attr(miri, ignore = "miri reads another clock")]
    fn it_is_the_uptime_that_the_system_shows() {
        let uptime = || {
            let text = fs::read_to_string("/proc/uptime").expect("Linux has it");
            let seconds: f64 = text.split(' ').next().expect("one").parse().expect("a number");
            Duration::from_secs_f64(seconds)
        };
        let before = uptime();
        let time = boot_time().expect("Linux has it");
        let after = uptime();
        // The file has hundredths of seconds.
        let slip = Duration::from_millis(20);
        assert!(before <= time + slip && time <= after + slip, "{before:?} {time:?} {after:?}");
        assert!(boot_time() >= Some(time));
    }
}
