//! A chain of errors, as it is printed.

use std::fmt;

use super::*;

#[derive(Debug)]
struct Layer(&'static str, Option<Box<Layer>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|source| source as _)
    }
}

#[test]
fn each_text_of_the_chain_is_printed_once() {
    let layers = |texts: &[&'static str]| {
        let chain =
            texts.iter().rev().fold(None, |source, text| Some(Box::new(Layer(text, source))));
        with_sources(&*chain.expect("a layer"))
    };
    assert_eq!(layers(&["no row"]), "no row");
    assert_eq!(layers(&["no row", "no table", "no disk"]), "no row: no table: no disk");
    assert_eq!(layers(&["no row: no table", "no table", "no disk"]), "no row: no table: no disk");
    assert_eq!(layers(&["no row", "", "no row"]), "no row");
}
