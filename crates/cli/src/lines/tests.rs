//! Compares the fast path of decimal lines with the plain one.

use super::*;

#[test]
fn lines_are_the_numbers() {
    let starts = [0, 9, 98, 999_999, 1 << 53, 999_999_999_999_999_990, i64::MAX as u64 - 60];
    let uids: Vec<Uid> = starts
        .iter()
        .flat_map(|&start| (start..start + 50).chain([start + 60]))
        .map(|number| Uid::new(number).expect("63 bits"))
        .collect();
    let mut text = b"before\n".to_vec();
    assert!(decimal(&mut text, &uids).is_ok());
    let expected: String = uids.iter().map(|uid| format!("{uid}\n")).collect();
    assert_eq!(String::from_utf8(text).expect("ASCII"), expected);
}
