//! The README's program. It is safe to start again and again: the worker id comes from a file that never hands
//! out the same one twice.
//!
//! `cargo run --release -p uidring-any --example first_ids`

fn main() -> Result<(), uidring_any::uidring::Error> {
    let generator = uidring_any::open("sqlite:")?;
    let uid = generator.next_uid()?; // from any thread, through & or Arc
    println!("{uid} {} {}", uid.base62(), generator.decode(uid)?.timestamp);
    Ok(())
}
