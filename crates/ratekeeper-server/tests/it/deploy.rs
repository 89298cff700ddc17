//! The files of `deploy` agree with the program that they run: its metrics and labels, its paths, its version.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::openapi::yaml;
use crate::support::{Folder, RATEKEEPER, Server, request, run_command, told};
use prometheus::{Exported, expressions};

mod prometheus;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the files name and whoever runs them sets.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|wrong| panic!("{path}: {wrong}"))
}

/// The documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    read(path).split("\n---\n").map(yaml::read).collect()
}

/// Each command of a Dockerfile with what follows it, continued lines as one.
fn dockerfile() -> Vec<(String, String)> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let commands = lines.map(|line| line.split_once(' ').expect("a command has arguments"));
    commands.map(|(command, rest)| (command.to_owned(), rest.trim().to_owned())).collect()
}

/// The settings of the unit file, each as often as it stands there.
fn unit() -> Vec<(String, String)> {
    let text = read("deploy/ratekeeper.service");
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// All values of a name.
fn values<'p>(pairs: &'p [(String, String)], name: &str) -> Vec<&'p str> {
    pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
}

/// Is this configuration one that can be used, without a warning?
#[track_caller]
fn is_good(configuration: &str) {
    let mut validate = Command::new(RATEKEEPER);
    validate.args(["validate", "-", "--strict"]).env("RATEKEEPER_ADMIN_TOKEN", TOKEN);
    let (stdout, stderr, code) = told(&run_command(validate, configuration.as_bytes()));
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn the_dashboard_shows_what_a_server_exports_and_all_of_it() {
    let exported = Exported::scrape();
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/ratekeeper.json")).expect("JSON");
    let mut shown = String::new();
    let panels = dashboard["panels"].as_array().expect("panels");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().expect("a title");
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title}: what is it?");
        let targets = panel["targets"].as_array().expect("a panel asks something");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            let legend = target["legendFormat"].as_str().expect("a legend");
            exported.check(expression, legend).unwrap_or_else(|wrong| panic!("{title}: {wrong}"));
            shown.push_str(expression);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if let Some(query) = variable["definition"].as_str() {
            let (metric, label) = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')'))
                .and_then(|rest| rest.split_once(", "))
                .expect("values of a label");
            exported.check(metric, &format!("{{{{{label}}}}}")).expect("a label of the metric");
        }
    }
    for name in exported.ours() {
        assert!(shown.contains(name), "nobody sees {name} on the dashboard");
    }
    let mut ids: Vec<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "panels have numbers of their own");
}

#[test]
fn alerts_ask_for_what_a_server_exports() {
    let exported = Exported::scrape();
    let alerts = documents("deploy/prometheus/alerts.yaml").remove(0);
    let rules = alerts["groups"][0]["rules"].as_array().expect("rules");
    assert!(rules.len() >= 5);
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        let expression = rule["expr"].as_str().expect("an expression");
        let annotations = rule["annotations"].as_object().expect("annotations");
        for needed in ["summary", "description"] {
            let text = annotations[needed].as_str().expect("text").replace("$labels.", "");
            exported.check(expression, &text).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        }
        assert!(rule["for"].is_string(), "{name} comes at the first sight");
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("page" | "ticket")), "{name}");
    }
}

#[test]
fn what_no_server_exports_is_found() {
    let exported = Exported::scrape();
    for (expression, legend) in [
        ("rate(ratekeeper_decision_total[5m])", ""),
        ("ratekeeper_keys{policy=\"login\"}", ""),
        ("ratekeeper_decisions_total{decision=\"refused\"}", ""),
        ("ratekeeper_requests_total{code=~\"6..\"}", ""),
        ("sum by (sotre) (ratekeeper_keys)", ""),
        ("sum by (store) (ratekeeper_keys)", "{{policy}}"),
        ("sum by (store) (ratekeeper_keys", ""),
        ("1 + 1", ""),
    ] {
        assert!(exported.check(expression, legend).is_err(), "{expression} {legend}");
    }
    for (expression, legend) in [
        ("ratekeeper_decisions_total{decision=\"denied\",policy=~\"$policy\"}", "{{policy}} {{instance}}"),
        ("ratekeeper_requests_total{code=~\"5..\"}", "{{code}}"),
        ("histogram_quantile(0.5, sum by (le) (rate(ratekeeper_delay_seconds_bucket[1m])))", "p50"),
    ] {
        assert_eq!(exported.check(expression, legend), Ok(()), "{expression} {legend}");
    }
    assert_eq!(expressions("a{b=\"ratekeeper_x\"} + ratekeeper_y{c=\"d\"}").count(), 1);
}

#[test]
fn configurations_that_are_shipped_have_no_warnings() {
    is_good(&read("deploy/config/ratekeeper.yaml"));
    let files = documents("deploy/kubernetes.yaml");
    let map = files.iter().find(|file| file["kind"] == "ConfigMap").expect("a ConfigMap");
    is_good(map["data"]["ratekeeper.yaml"].as_str().expect("a configuration"));
}

#[test]
fn the_image_runs_as_nobody_and_from_a_release() {
    let commands = dockerfile();
    let of = |name: &str| values(&commands, name);
    let bases: Vec<&str> = of("FROM");
    assert_eq!(bases.len(), 2, "what builds is not shipped");
    for base in &bases {
        let tag = base.split(' ').next().and_then(|image| image.split_once(':')).map(|(_, tag)| tag);
        assert!(tag.is_some_and(|tag| !tag.contains("latest")), "{base} is another image tomorrow");
    }
    let toolchain = env!("CARGO_PKG_RUST_VERSION");
    assert!(bases[0].starts_with(&format!("rust:{toolchain}-")), "{} builds with {toolchain}", bases[0]);
    // Both of one system: the C library of the one has to fit the other.
    let system =
        |base: &str| ["bookworm", "trixie"].into_iter().find(|name| base.contains(name)).map(str::to_owned);
    assert!(system(bases[0]).is_some() && system(bases[0]) == system(bases[1]), "{bases:?}");
    let users: Vec<&str> = of("USER");
    assert!(users.len() == 1 && !users[0].starts_with('0') && !users[0].contains("root"), "{users:?}");
    let place = |name: &str| commands.iter().rposition(|(command, _)| command == name);
    assert!(
        place("USER") > place("FROM") && place("USER") > place("COPY"),
        "the user is that of the last image"
    );
    assert!(
        of("RUN").iter().any(|run| run.contains("cargo build --locked --release")),
        "the versions of Cargo.lock"
    );
    let json =
        |name: &str| serde_json::from_str::<Vec<String>>(of(name).first().expect(name)).expect("a list");
    assert_eq!((json("ENTRYPOINT"), json("CMD")), (vec!["ratekeeper".to_owned()], vec!["serve".to_owned()]));
    let health = of("HEALTHCHECK").first().and_then(|rest| rest.split_once(" CMD ")).expect("a command");
    assert_eq!(health.1, r#"["ratekeeper", "check", "--ready"]"#);
}

#[test]
fn the_health_check_of_the_image_asks_the_server_of_its_file() {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a port");
    let folder = Folder::new();
    // As in an image: everywhere, which no one can be asked at.
    let text = format!("version: 1\nlisten: {{ http: 0.0.0.0:{} }}\npolicies: []\n", free.port());
    let file = folder.file("ratekeeper.yaml", text);
    let of_image = |arguments: &[&str]| {
        let mut command = crate::support::command(arguments);
        command.env("RATEKEEPER_CONFIG", &file);
        command
    };
    let healthy = || told(&run_command(of_image(&["check", "--ready"]), b"")).2;
    assert_eq!(healthy(), 1, "nobody is there yet");
    let mut serve = of_image(&["serve"]);
    serve.stdout(std::process::Stdio::null());
    let _server = Server::spawn_at(serve, &format!("127.0.0.1:{}", free.port()));
    assert_eq!(healthy(), 0);
}

#[test]
fn compose_runs_the_image_without_rights_and_sees_new_files() {
    let compose = documents("deploy/docker-compose.yaml").remove(0);
    let service = &compose["services"]["ratekeeper"];
    assert_eq!(service["image"], format!("ratekeeper:{VERSION}"));
    let built_by = (service["build"]["context"].as_str(), service["build"]["dockerfile"].as_str());
    assert_eq!(built_by, (Some(".."), Some("deploy/Dockerfile")));
    assert_eq!((&service["read_only"], &service["cap_drop"][0]), (&true.into(), &"ALL".into()));
    let mount: Vec<&str> = service["volumes"][0].as_str().expect("a mount").split(':').collect();
    assert!(root().join("deploy").join(mount[0]).join("ratekeeper.yaml").is_file(), "{mount:?}");
    assert_eq!(&mount[1..], ["/etc/ratekeeper", "ro"]);
    for port in service["ports"].as_array().expect("ports") {
        assert!(port.as_str().is_some_and(|port| port.starts_with("127.0.0.1:")), "{port} is open to all");
    }
}

#[test]
fn pods_are_probed_where_a_server_answers_and_see_new_files() {
    let files = documents("deploy/kubernetes.yaml");
    let of =
        |kind: &str| files.iter().find(|file| file["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let pod = &of("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], format!("ratekeeper:{VERSION}"));
    let server = Server::start(&["demo", "--no-traffic"], None);
    for (probe, expected) in
        [("livenessProbe", "/livez"), ("readinessProbe", "/readyz"), ("startupProbe", "/readyz")]
    {
        let asked = &container[probe]["httpGet"];
        let path = asked["path"].as_str().expect("a path");
        assert_eq!((path, asked["port"].as_str()), (expected, Some("http")), "{probe}");
        let mut connection = server.connect();
        connection.send(&request("GET", path, "", b""));
        assert_eq!(connection.response().status, 200, "{path}");
    }
    // A single file of a ConfigMap is never renewed.
    let mount = &container["volumeMounts"][0];
    assert_eq!((&mount["mountPath"], mount.get("subPath")), (&"/etc/ratekeeper".into(), None));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let rights = &container["securityContext"];
    assert_eq!(
        (
            &rights["readOnlyRootFilesystem"],
            &rights["allowPrivilegeEscalation"],
            &rights["capabilities"]["drop"][0]
        ),
        (&true.into(), &false.into(), &"ALL".into())
    );
    // Everything that a Service sends on has a door.
    let doors: Vec<&Value> =
        container["ports"].as_array().expect("ports").iter().map(|port| &port["name"]).collect();
    for service in files.iter().filter(|file| file["kind"] == "Service") {
        for port in service["spec"]["ports"].as_array().expect("ports") {
            assert!(doors.contains(&&port["targetPort"]), "{port}");
        }
        assert_eq!(service["spec"]["selector"], of("Deployment")["spec"]["selector"]["matchLabels"]);
    }
}

#[test]
fn the_unit_notifies_reloads_and_runs_as_nobody() {
    let unit = unit();
    let of = |name: &str| values(&unit, name);
    assert_eq!(of("Type"), ["notify"]);
    assert_eq!(of("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    let expected = "/usr/local/bin/ratekeeper serve --config /etc/ratekeeper/ratekeeper.yaml";
    assert_eq!(of("ExecStart"), [expected]);
    for hardening in
        ["DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet="]
    {
        let (name, value) = hardening.split_once('=').expect("a setting");
        assert_eq!(of(name), [value], "{name}");
    }
    assert!(!of("WatchdogSec").is_empty());
}

#[test]
fn systemd_understands_the_unit() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if there.is_err_and(|wrong| wrong.kind() == io::ErrorKind::NotFound) {
        return;
    }
    let folder = Folder::new();
    let unit = |from: &str, to: &str| {
        let text = read("deploy/ratekeeper.service");
        assert!(text.contains(from), "{from}");
        // The manual is not installed here, and the program is elsewhere.
        let text = text
            .replace("/usr/local/bin/ratekeeper", RATEKEEPER)
            .replace("Documentation=man:ratekeeper(1)\n", "");
        let file = folder.file("ratekeeper.service", text.replace(from, to));
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(file);
        let output = run_command(verify, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // It complains of other units of this machine too.
        said.lines().filter(|line| line.contains("ratekeeper.service")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(unit("Type=notify", "Type=notify"), "");
    assert!(unit("DynamicUser=yes", "DynamcUser=yes").contains("DynamcUser"), "a mistake would be found");
}
