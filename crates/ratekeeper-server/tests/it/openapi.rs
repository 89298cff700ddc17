//! `docs/openapi.yaml` and the real server say the same: every documented status of every operation is provoked,
//! and nothing is answered that the file does not know.

mod provoked;
mod schema;
pub(crate) mod yaml;

use std::collections::BTreeSet;

use serde_json::Value;

use self::schema::Spec;
use crate::support::{Connection, Response};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
/// Fields of every answer, which belong to HTTP.
const PLAIN_FIELDS: [&str; 4] = ["connection", "content-length", "content-type", "date"];

/// An operation and one of its statuses.
type Seen = BTreeSet<(String, String, u16)>;

/// The file, and what of it has been met.
struct Api {
    spec: Spec,
    seen: Seen,
}

/// A request, and the path of the file that it means.
#[derive(Clone, Copy)]
struct Question<'q> {
    at: &'q str,
    method: &'q str,
    path: &'q str,
    target: &'q str,
    headers: &'q str,
    body: &'q [u8],
}

impl<'q> Question<'q> {
    fn new(at: &'q str, method: &'q str, path: &'q str) -> Self {
        Self { at, method, path, target: path, headers: "", body: b"" }
    }

    fn post(at: &'q str, path: &'q str, body: &'q str) -> Self {
        Self { body: body.as_bytes(), ..Self::new(at, "POST", path) }
    }

    fn target(self, target: &'q str) -> Self {
        Self { target, ..self }
    }

    fn with(self, headers: &'q str) -> Self {
        Self { headers, ..self }
    }

    /// The head, asking for the end of the connection so that the whole answer can be read.
    fn head(&self, length: usize) -> String {
        let host = if self.headers.contains("host:") { "" } else { "host: 127.0.0.1\r\n" };
        let Self { method, target, headers, .. } = self;
        format!(
            "{method} {target} HTTP/1.1\r\n{host}connection: close\r\n{headers}content-length: {length}\r\n\r\n"
        )
    }

    fn answer(&self) -> Response {
        let mut connection = Connection::open(self.at);
        // Answers may come before all has been read.
        let _ = connection.try_send(&[self.head(self.body.len()).as_bytes(), self.body].concat());
        rest(&mut connection)
    }
}

/// The answer that ends a connection; that to `HEAD` has no body, whatever its length says.
fn rest(connection: &mut Connection) -> Response {
    let text = String::from_utf8(connection.rest()).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let fields = lines.filter_map(|line| line.split_once(": "));
    let headers = fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Response { status, headers, body: body.to_owned() }
}

impl Api {
    fn new() -> Self {
        Self { spec: Spec(yaml::read(include_str!("../../../../docs/openapi.yaml"))), seen: Seen::new() }
    }

    fn paths(&self) -> Vec<&str> {
        self.spec.0["paths"].as_object().expect("paths").keys().map(String::as_str).collect()
    }

    fn operation(&self, path: &str, method: &str) -> Option<&Value> {
        self.spec.0["paths"][path].get(method.to_lowercase())
    }

    fn documented(&self) -> Seen {
        let mut all = Seen::new();
        for path in self.paths() {
            for method in METHODS {
                let Some(operation) = self.operation(path, method) else { continue };
                for status in operation["responses"].as_object().expect("responses").keys() {
                    all.insert((path.to_owned(), method.to_owned(), status.parse().expect("a status")));
                }
            }
        }
        all
    }

    /// Asks, and holds the answer against the file.
    #[track_caller]
    fn ask(&mut self, question: &Question<'_>, status: u16) -> Response {
        let answer = question.answer();
        self.hold(question, status, &answer);
        answer
    }

    /// Holds an answer against the file.
    #[track_caller]
    fn hold(&mut self, question: &Question<'_>, status: u16, answer: &Response) {
        let Question { method, path, target, .. } = question;
        let flaws = self.flaws(question, answer);
        assert!(flaws.is_empty(), "{method} {target}: {flaws:#?}\n{answer:?}");
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        self.seen.insert(((*path).to_owned(), (*method).to_owned(), status));
    }

    /// In what an answer differs from the file.
    fn flaws(&self, question: &Question<'_>, answer: &Response) -> Vec<String> {
        let Question { method, path, .. } = question;
        let operation = self.operation(path, method).expect("the operation is documented");
        let status = answer.status.to_string();
        let Some(documented) = operation["responses"].get(&status) else {
            return vec![format!("{status} is not documented")];
        };
        let documented = self.spec.resolve(documented);
        let mut flaws = self.flaws_of_fields(documented, answer);
        if *method == "HEAD" || documented.get("content").is_none() {
            if !answer.body.is_empty() {
                flaws.push("there is a body".to_owned());
            }
            return flaws;
        }
        let kind = answer.header("content-type").unwrap_or_default();
        let Some(content) = documented["content"].get(kind) else {
            flaws.push(format!("the type `{kind}` is not documented"));
            return flaws;
        };
        let body = if kind.contains("json") { answer.json() } else { Value::from(answer.body.as_str()) };
        flaws.extend(self.spec.flaws(&content["schema"], &body, ""));
        if kind == "application/problem+json" && body["status"] != answer.status {
            flaws.push("the problem has another status".to_owned());
        }
        flaws
    }

    fn flaws_of_fields(&self, documented: &Value, answer: &Response) -> Vec<String> {
        let mut flaws = Vec::new();
        let none = serde_json::Map::new();
        let known = documented.get("headers").and_then(Value::as_object).unwrap_or(&none);
        for (name, field) in known {
            let field = self.spec.resolve(field);
            let is_integer = field["schema"]["type"] == "integer";
            match answer.header(&name.to_lowercase()) {
                None if field["required"] == true => flaws.push(format!("{name} is missing")),
                None => {}
                Some(value) => {
                    let number = value.parse::<u64>().ok().filter(|_| is_integer).map(Value::from);
                    let value = number.unwrap_or_else(|| Value::from(value));
                    flaws.extend(self.spec.flaws(&field["schema"], &value, name));
                }
            }
        }
        for (name, _) in &answer.headers {
            let is_known = known.keys().any(|known| known.eq_ignore_ascii_case(name));
            if !is_known && !PLAIN_FIELDS.contains(&name.as_str()) {
                flaws.push(format!("the field {name} is not documented"));
            }
        }
        flaws
    }

    /// A question of an operation that is answered with 200 has a body that the file allows.
    #[track_caller]
    fn ask_well(&mut self, question: &Question<'_>) -> Value {
        let operation = self.operation(question.path, question.method).expect("documented");
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = serde_json::from_slice(question.body).expect("JSON");
        let flaws = self.spec.flaws(schema, &body, "");
        assert!(flaws.is_empty(), "{flaws:#?}");
        self.ask(question, 200).json()
    }
}

#[test]
fn the_file_is_whole() {
    let api = Api::new();
    let mut used = BTreeSet::new();
    references(&api.spec.0, &mut |pointer| {
        api.spec.resolve(&serde_json::json!({ "$ref": pointer }));
        used.insert(pointer.to_owned());
    });
    for (kind, components) in api.spec.0["components"].as_object().expect("components") {
        for name in components.as_object().expect("named").keys().filter(|_| kind != "securitySchemes") {
            let pointer = format!("#/components/{kind}/{name}");
            assert!(used.contains(&pointer), "nobody uses {pointer}");
        }
    }
    let mut operations = 0;
    for path in api.paths() {
        for operation in METHODS.iter().filter_map(|method| api.operation(path, method)) {
            operations += 1;
            for (status, answer) in operation["responses"].as_object().expect("responses") {
                let answer = api.spec.resolve(answer).as_object().expect("an object");
                let known = |name: &String| ["description", "headers", "content"].contains(&name.as_str());
                assert!(answer["description"].is_string() && answer.keys().all(known), "{path} {status}");
            }
            let Some(body) = operation.get("requestBody") else { continue };
            let body = &body["content"]["application/json"];
            assert_eq!(api.spec.flaws(&body["schema"], &body["example"], path), [""; 0]);
        }
    }
    assert!(operations > 10, "{operations}");
}

/// All that the file refers to.
fn references(node: &Value, found: &mut dyn FnMut(&str)) {
    match node {
        Value::Object(fields) => {
            // What is behind a comma in a text without quotes becomes a field of its own.
            let empty = fields.iter().find(|(_, value)| value.is_null());
            assert!(empty.is_none(), "a field without a value: {empty:?}");
            if let Some(pointer) = fields.get("$ref").and_then(Value::as_str) {
                found(pointer);
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn an_answer_that_differs_from_the_file_is_found() {
    let api = Api::new();
    let question = Question::post("", "/v1/settle", "");
    let good = |body: &str| Response {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_owned(),
    };
    let id = "0123456789abcdef0123456789abcdef";
    let body = format!(r#"{{"id":"{id}","policy":"p","held":2,"cost":1,"charged":1}}"#);
    assert_eq!(api.flaws(&question, &good(&body)), [""; 0]);
    let found = |answer: &Response| assert_ne!(api.flaws(&question, answer), [""; 0], "{answer:?}");
    for (right, wrong) in [("charged", "taken"), (r#","charged":1"#, ""), (":2", r#":"2""#), (id, "0")] {
        found(&good(&body.replace(right, wrong)));
    }
    found(&Response { status: 201, ..good(&body) });
    found(&Response { headers: Vec::new(), ..good(&body) });
    let mut answer = good(&body);
    answer.headers.push(("x-more".to_owned(), "1".to_owned()));
    found(&answer);
    // A field that has to be there, and is not.
    let limited = Question::post("", "/v1/check", "");
    let flaws = api.flaws(&limited, &Response { status: 429, ..good("{}") });
    assert!(flaws.contains(&"Retry-After is missing".to_owned()), "{flaws:?}");
}
