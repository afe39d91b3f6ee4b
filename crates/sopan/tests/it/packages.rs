//! What the packages are made of is there.
//!
//! Building them takes minutes, so `./packages.sh` does that, and tries them, before a release. What rots between releases
//! are the names of files, and those are asked here.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Relative to the crate, or to the root; `*` stands for the name of any file.
#[track_caller]
fn check(base: &Path, name: &str) {
    let path = base.join(name);
    let is_there = match name.rsplit_once("/*") {
        Some((folder, ending)) => fs::read_dir(base.join(folder))
            .is_ok_and(|mut files| files.any(|file| file.unwrap().path().to_str().unwrap().ends_with(ending))),
        None => path.exists(),
    };
    assert!(is_there, "{} is not there", path.display());
}

#[test]
fn what_the_debian_package_holds_is_there() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let told = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    let deb = &packages.iter().find(|package| package["name"] == "sopan").unwrap()["metadata"]["deb"];
    let assets: Vec<_> = deb["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap()).collect();
    let (program, files) = assets.split_first().unwrap();
    assert_eq!((*program, files.is_empty()), ("target/release/sopan", false));
    for name in files.iter().copied().chain(deb["license-file"][0].as_str()) {
        check(Path::new(env!("CARGO_MANIFEST_DIR")), name);
    }
}

#[test]
fn what_the_wheel_holds_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let project = fs::read_to_string(root.join("pyproject.toml")).unwrap();
    for key in ["readme", "license-files", "manifest-path"] {
        let mut values = project.lines().filter_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        let value = values.next().unwrap_or_else(|| panic!("pyproject.toml says no {key}"));
        let names: Vec<_> = value.split('"').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{key} names nothing");
        names.into_iter().for_each(|name| check(&root, name));
    }
}
