//! Compares lines with those of single ids, and the fast path of decimal lines with the plain one.

use uidring::Layout;

use super::*;

#[test]
fn lines_replace_longer_and_shorter_ones() {
    let layout = ResolvedLayout { layout: Layout::default(), has_datacenters: false };
    let uids = |numbers: &[u64]| -> Vec<_> {
        numbers.iter().map(|&number| Uid::new(number).expect("63 bits")).collect()
    };
    let portions =
        [uids(&[1 << 60, 1 << 61, 1 << 62]), uids(&[3, 1_000]), uids(&[7]), uids(&[1 << 59, 8])];
    for format in Format::value_variants() {
        let new = || lines(*format, Some(layout)).unwrap_or_else(|_| panic!("a form"));
        let (mut one, mut text) = (new(), Vec::new());
        for portion in &portions {
            let mut apart = Vec::new();
            for uid in portion {
                let mut text = Vec::new();
                assert!((new().replace)(&mut text, &[*uid]).is_ok());
                apart.extend(text);
            }
            assert!((one.replace)(&mut text, portion).is_ok());
            assert_eq!(text, apart);
        }
    }
}

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
