use super::*;

/// Whole, with everything that is read.
const WHOLE: &str = r#"# HELP asked How often it was asked.
# TYPE asked counter
asked_total{by="a",why="a \"b\" \\ {c}, d\n"} 2
asked_total{by="b",why=""} 1e+3
# TYPE took_seconds histogram
# UNIT took_seconds seconds
# HELP took_seconds How long it took.
took_seconds_sum 0.25
took_seconds_count 3
took_seconds_bucket{le="0.1"} 2
took_seconds_bucket{le="1.0"} 2
took_seconds_bucket{le="+Inf"} 3
# TYPE waiting gauge
waiting{} -0.5
# TYPE empty gauge
# TYPE built info
built_info{version="1"} 1
# TYPE odd unknown
odd NaN
# EOF
"#;

#[test]
fn what_is_right_is_read() {
    let families = parse(WHOLE).unwrap();
    let told: Vec<_> =
        families.iter().map(|family| (family.query(), family.kind, &*family.unit, family.samples.len())).collect();
    let expected = [
        ("asked_total", "counter", "", 2),
        ("took_seconds", "histogram", "seconds", 5),
        ("waiting", "gauge", "", 1),
        ("empty", "gauge", "", 0),
        ("built_info", "info", "", 1),
        ("odd", "unknown", "", 1),
    ];
    assert_eq!(told, expected.map(|(name, kind, unit, samples)| (name.to_owned(), kind, unit, samples)));
    assert_eq!(families[0].labels(), ["by", "why"].into());
    assert_eq!(families[1].labels(), [].into());
    assert_eq!(families[0].help, "How often it was asked.");
    assert_eq!(families[0].samples[0].labels[1].1, "a \"b\" \\ {c}, d\n");
    assert_eq!((families[0].samples[1].value, families[2].samples[0].value), (1000.0, -0.5));
    assert_eq!(parse("# EOF"), Ok(Vec::new()));
}

/// What is made of one whole text by putting one piece in place of another is refused, and this is said.
#[track_caller]
fn check(piece: &str, instead: &str, says: &str) {
    assert_eq!(WHOLE.matches(piece).count(), 1, "{piece}");
    let why = parse(&WHOLE.replace(piece, instead)).expect_err(instead);
    assert!(why.contains(says), "{instead}: {why}");
}

#[test]
fn whatever_is_not_right_is_told() {
    for (piece, instead, says) in [
        ("# EOF\n", "", "does not end with # EOF"),
        ("# EOF\n", "# EOF\n\n", "does not end with # EOF"),
        ("NaN\n# EOF\n", "NaN # EOF\n", "EOF stands on no line of its own"),
        ("waiting{} -0.5\n", "waiting{} -0.5\n\n", "no value"),
        ("# TYPE empty gauge", "# empty", "it says nothing"),
        ("# TYPE empty gauge", "# KIND empty gauge", "none of TYPE, HELP and UNIT"),
        ("# TYPE empty gauge", "# TYPE empty summary", "`summary` is no type"),
        ("# TYPE empty gauge", "# TYPE 1empty gauge", "`1empty` is no name"),
        ("# TYPE empty gauge", "#TYPE empty gauge", "`#TYPE` is no name"),
        ("# TYPE empty gauge", "# TYPE empty  gauge", "is no type"),
        ("# TYPE empty gauge", "# HELP empty Nothing.", "empty has no type"),
        ("# TYPE empty gauge", "# TYPE asked counter", "the name asked stands in two places"),
        ("# TYPE empty gauge", "# TYPE took_seconds_sum gauge", "took_seconds_sum stands in two places"),
        ("# TYPE empty gauge", "# TYPE asked_created gauge", "asked_created stands in two places"),
        ("# TYPE waiting gauge\n", "", "it does not belong to the histogram took_seconds"),
        ("# TYPE asked counter\n", "", "its family has no type"),
        ("# HELP asked How often it was asked.\n# TYPE asked counter\n", "", "no family was declared"),
        ("# TYPE asked counter\n", "# TYPE asked counter\n# TYPE asked counter\n", "it is said twice"),
        ("waiting{} -0.5\n", "waiting{} -0.5\n# HELP waiting Too late.\n", "behind the samples"),
        ("# HELP asked How", "# HELP asked \\How", "a backslash escapes nothing"),
        ("# HELP asked How often it was asked.", "# HELP asked How often.\r", "carriage return"),
        ("# UNIT took_seconds seconds", "# UNIT took_seconds bytes", "does not end with the unit bytes"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked{by=\"b\"} 1", "does not belong to the counter asked"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"} -1", "-1 cannot be the value of a counter"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"} NaN", "cannot be the value of a counter"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"}  1", "is no number"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"} 1 1700000000", "is no number"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"}1", "no blank before the value"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"} 0x1", "is no number"),
        ("asked_total{by=\"b\",why=\"\"} 1e+3", "asked_total{by=\"b\"} 1_0", "is no number"),
        ("{by=\"b\",why=\"\"}", "{by=\"b\",by=\"\"}", "the label by stands there twice"),
        ("{by=\"b\",why=\"\"}", "{by=\"b\",}", "a label has no value in quotes"),
        ("{by=\"b\",why=\"\"}", "{by=\"b\";why=\"\"}", "neither a comma nor a brace"),
        ("{by=\"b\",why=\"\"}", "{by=b,why=\"\"}", "is no name of a label"),
        ("{by=\"b\",why=\"\"}", "{__by=\"b\"}", "is no name of a label"),
        ("{by=\"b\",why=\"\"}", "{by=\"b\\d\"}", "a backslash escapes nothing"),
        ("{by=\"b\",why=\"\"}", "{by=\"b\\\"}", "does not end"),
        (
            "asked_total{by=\"b\",why=\"\"} 1e+3",
            "asked_total{why=\"a \\\"b\\\" \\\\ {c}, d\\n\",by=\"a\"} 1",
            "there twice",
        ),
        ("built_info{version=\"1\"} 1", "built_info{version=\"1\"} 2", "2 cannot be the value of a info"),
        ("took_seconds_count 3", "took_seconds_count 2", "its count is not that of the last bucket"),
        ("took_seconds_count 3\n", "", "its count is not that of the last bucket"),
        ("took_seconds_sum 0.25\n", "", "or there is no sum"),
        ("took_seconds_sum 0.25", "took_seconds_sum -1", "-1 cannot be the value"),
        ("took_seconds_bucket{le=\"1.0\"} 2", "took_seconds_bucket{le=\"1.0\"} 1", "less than the one before"),
        ("took_seconds_bucket{le=\"1.0\"} 2", "took_seconds_bucket{le=\"1.0\"} 2.5", "2.5 cannot be the value"),
        ("took_seconds_bucket{le=\"1.0\"} 2", "took_seconds_bucket{le=\"0.01\"} 2", "do not ascend"),
        ("took_seconds_bucket{le=\"1.0\"} 2", "took_seconds_bucket 2", "the label le belongs to buckets"),
        ("took_seconds_bucket{le=\"+Inf\"} 3\n", "", "its last bucket is not that of +Inf"),
        (
            "waiting{} -0.5\n",
            "waiting{a=\"1\"} 1\nwaiting{a=\"2\"} 1\nwaiting 1\nwaiting{a=\"1\",b=\"\"} 1\nwaiting{a=\"2\"} 2\n",
            "there twice",
        ),
    ] {
        check(piece, instead, says);
    }
    // Two histograms of one family, mixed.
    let mixed = "# TYPE h histogram\nh_sum{a=\"1\"} 0\nh_sum{a=\"2\"} 0\nh_count{a=\"1\"} 0\n# EOF\n";
    assert!(parse(mixed).unwrap_err().contains("samples of other labels stand between"));
}
