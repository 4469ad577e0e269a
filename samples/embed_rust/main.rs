// Completes a text with the model that is linked into this program: see README.md.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::io::Write;
use std::ptr;

// What gemma3.h declares, as far as it is used here; bindgen makes all of it.
#[repr(C)]
struct Model {
    _private: [u8; 0],
}
#[repr(C)]
struct Session {
    _private: [u8; 0],
}
#[repr(C)]
struct SessionOptions {
    size: usize,
    n_ctx: u32,
    n_seqs: u32,
    n_batch: u32,
    n_outputs: u32,
    kv_type: u32,
    threads: u32,
    pool: *const c_void,
    allocator: *const c_void,
}
#[repr(C)]
struct ModelInfo {
    size: usize,
    texts: [*const c_char; 6],
    n_vocab: u32,
    n_ctx_train: u32,
    n_embd: u32,
    n_layer: u32,
} // and more, which a caller with this size isn't told
const TEXT_SPECIAL: u32 = 1;

extern "C" {
    fn gemma3_model_open(
        options: *const c_void,
        model: *mut *mut Model,
        message: *mut c_char,
        bytes: usize,
    ) -> c_int;
    fn gemma3_model_close(model: *mut Model);
    fn gemma3_model_get_info(model: *const Model, info: *mut ModelInfo) -> c_int;
    fn gemma3_tokenize(
        model: *const Model,
        text: *const c_char,
        bytes: usize,
        flags: u32,
        ids: *mut i32,
        capacity: usize,
        n: *mut usize,
    ) -> c_int;
    fn gemma3_detokenize(
        model: *const Model,
        ids: *const i32,
        n: usize,
        flags: u32,
        text: *mut c_char,
        capacity: usize,
        bytes: *mut usize,
    ) -> c_int;
    fn gemma3_token_is_end(model: *const Model, id: i32) -> c_int;
    fn gemma3_session_options_init(options: *mut SessionOptions);
    fn gemma3_session_create(
        model: *const Model,
        options: *const SessionOptions,
        session: *mut *mut Session,
        message: *mut c_char,
        bytes: usize,
    ) -> c_int;
    fn gemma3_session_free(session: *mut Session);
    fn gemma3_session_error(session: *const Session) -> *const c_char;
    fn gemma3_prefill(session: *mut Session, seq: u32, ids: *const i32, n: usize) -> c_int;
    fn gemma3_decode(session: *mut Session, seq: u32, id: i32) -> c_int;
    fn gemma3_logits(session: *mut Session, output: u32) -> *mut f32;
}

fn check(status: c_int, message: *const c_char) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    Err(unsafe { CStr::from_ptr(message) }
        .to_string_lossy()
        .into_owned())
}

// A model with one session; both end with it.
struct Completer {
    model: *mut Model,
    session: *mut Session,
}

impl Drop for Completer {
    fn drop(&mut self) {
        unsafe {
            gemma3_session_free(self.session);
            gemma3_model_close(self.model);
        }
    }
}

impl Completer {
    fn new(n_ctx: u32) -> Result<Self, String> {
        let mut c = Completer {
            model: ptr::null_mut(),
            session: ptr::null_mut(),
        };
        let mut why = [0 as c_char; 256];
        unsafe {
            check(
                gemma3_model_open(ptr::null(), &mut c.model, why.as_mut_ptr(), why.len()),
                why.as_ptr(),
            )?;
            let mut options = std::mem::zeroed();
            gemma3_session_options_init(&mut options);
            options.n_ctx = n_ctx;
            check(
                gemma3_session_create(
                    c.model,
                    &options,
                    &mut c.session,
                    why.as_mut_ptr(),
                    why.len(),
                ),
                why.as_ptr(),
            )?;
        }
        Ok(c)
    }

    fn n_vocab(&self) -> usize {
        let mut info: ModelInfo = unsafe { std::mem::zeroed() };
        info.size = std::mem::size_of::<ModelInfo>();
        unsafe { gemma3_model_get_info(self.model, &mut info) };
        info.n_vocab as usize
    }

    fn ids(&self, text: &str) -> Result<Vec<i32>, String> {
        let mut ids = vec![0; text.len() + 8];
        let mut n = 0;
        let status = unsafe {
            gemma3_tokenize(
                self.model,
                text.as_ptr().cast(),
                text.len(),
                TEXT_SPECIAL,
                ids.as_mut_ptr(),
                ids.len(),
                &mut n,
            )
        };
        ids.truncate(n);
        if status == 0 {
            Ok(ids)
        } else {
            Err(format!("the text cannot be tokenized ({status})"))
        }
    }

    // Greedy: the likeliest token each time.
    fn complete(&mut self, prompt: &str, most: usize) -> Result<Vec<u8>, String> {
        let (ids, n_vocab) = (self.ids(prompt)?, self.n_vocab());
        let mut made = Vec::new();
        unsafe {
            let why = |s: &Self| gemma3_session_error(s.session);
            check(
                gemma3_prefill(self.session, 0, ids.as_ptr(), ids.len()),
                why(self),
            )?;
            while made.len() < most {
                let logits = std::slice::from_raw_parts(gemma3_logits(self.session, 0), n_vocab);
                let best =
                    (0..n_vocab).fold(0, |a, b| if logits[b] > logits[a] { b } else { a }) as i32;
                if gemma3_token_is_end(self.model, best) != 0 {
                    break;
                }
                made.push(best);
                check(gemma3_decode(self.session, 0, best), why(self))?;
            }
            let mut text = vec![0u8; 64 * made.len() + 1];
            let mut n = 0;
            let to = text.as_mut_ptr().cast();
            if gemma3_detokenize(
                self.model,
                made.as_ptr(),
                made.len(),
                0,
                to,
                text.len(),
                &mut n,
            ) != 0
            {
                return Err("the tokens have no text".into());
            }
            text.truncate(n);
            Ok(text)
        }
    }
}

fn main() {
    let prompt = std::env::args()
        .nth(1)
        .unwrap_or("The capital of France is".into());
    let completed = Completer::new(1024).and_then(|mut c| c.complete(&prompt, 32));
    match completed {
        Ok(text) => {
            print!("{prompt}");
            std::io::stdout().write_all(&text).unwrap();
            println!();
        }
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1);
        }
    }
}
