//! Replies in both versions of the protocol.

/// Appends replies to the output.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// Whether the client speaks version 3.
    is_3: bool,
}

impl<'a> Reply<'a> {
    pub fn new(out: &'a mut Vec<u8>, is_3: bool) -> Self {
        Self { out, is_3 }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, length: usize) {
        self.line(kind, itoa::Buffer::new().format(length).as_bytes());
    }

    pub fn integer(&mut self, number: u64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        // One copy of a known size, because most replies are integers.
        let mut line = [b':'; 24];
        line[1..=digits.len()].copy_from_slice(digits);
        line[digits.len() + 1..][..2].copy_from_slice(b"\r\n");
        self.out.extend_from_slice(&line[..digits.len() + 3]);
    }

    pub fn signed(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error: a word in capitals, then its description.
    pub fn error(&mut self, kind: &str, text: &str) {
        self.out.push(b'-');
        self.out.extend_from_slice(kind.as_bytes());
        self.out.push(b' ');
        // An error must be one line.
        self.out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn bulk(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.head(b'$', text.len());
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    pub fn bulks<T: AsRef<[u8]>>(&mut self, texts: impl IntoIterator<Item = T>) {
        texts.into_iter().for_each(|text| self.bulk(text));
    }

    /// Writes an id as a string.
    pub fn id(&mut self, id: u64) {
        self.bulk(itoa::Buffer::new().format(id));
    }

    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.is_3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub fn array(&mut self, length: usize) {
        self.head(b'*', length);
    }

    /// Begins a set, or an array in RESP2.
    pub fn set(&mut self, length: usize) {
        self.head(if self.is_3 { b'~' } else { b'*' }, length);
    }

    /// Begins a map. Keys and values follow in turn.
    pub fn map(&mut self, pairs: usize) {
        if self.is_3 {
            self.head(b'%', pairs);
        } else {
            self.array(2 * pairs);
        }
    }
}
