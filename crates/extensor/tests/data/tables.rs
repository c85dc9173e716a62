//! CSV.

use crate::{Folder, packed};
use extensor::data::csv::{Options, parse, read};

fn error(text: &str) -> String {
    parse(text, &Options::default()).unwrap_err().to_string()
}

#[test]
fn quotes_spaces_blank_lines_and_either_line_end_are_read() {
    let text = "\u{feff}\"a\",\"b, with \"\"quotes\"\"\nand a line\", c \r\n1,\"2\", 3\r\n\r\n-4e-1 , \"5\" ,6";
    let table = parse(text, &Options::default()).unwrap();
    assert_eq!(table.columns(), ["a", "b, with \"quotes\"\nand a line", " c "]);
    assert_eq!(table.values().shape(), [2, 3]);
    assert_eq!(table.values().to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0, -0.4, 5.0, 6.0]);
}

#[test]
fn a_header_is_guessed_or_told() {
    let table = parse("1,2\n3,4\n", &Options::default()).unwrap();
    assert_eq!((table.columns(), table.values().len()), (&["0".to_string(), "1".into()][..], 4));
    let named = parse("1,2\n3,4\n", &Options { header: Some(true), ..Options::default() }).unwrap();
    assert_eq!((named.columns(), named.values().len()), (&["1".to_string(), "2".into()][..], 2));
    let none = parse("a,2\n3,4\n", &Options { header: Some(false), ..Options::default() });
    assert!(none.unwrap_err().to_string().contains("line 1, column 1 (\"0\"): \"a\""));
    let tabs = parse("1\t\"2\"\n3\t4", &Options { delimiter: '\t', header: None }).unwrap();
    assert_eq!(tabs.values().to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(parse("", &Options::default()).unwrap().values().shape(), [0, 0]);
}

#[test]
fn errors_say_line_and_column() {
    for (text, expected) in [
        ("a,b\n1,2\n3\n", "line 3 has 1 fields, expected 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 fields, expected 2"),
        ("a,b\n1,\n", "line 2, column 2 (\"b\"): \"\" is no finite number"),
        ("a,\"b\nc\"\n\n1,2\n1,nan\n", "line 5, column 2 (\"b\\nc\"): \"nan\" is no finite number"),
        ("a,b\n1,\"2\n", "line 2, column 2: a quotation mark is never closed"),
        ("a,b\n\"1\"x,2\n", "line 2, column 1: something follows the closing quotation mark"),
    ] {
        let message = error(text);
        assert!(message.ends_with(expected), "{text:?}: {message}");
    }
}

#[test]
fn the_target_is_a_column_by_name_or_number() {
    let folder = Folder::new("csv");
    let path = folder.write("t.csv.gz", &packed(b"x,class,y\n1,0,2\n3,2,4\n"));
    let table = read(&path, &Options::default()).unwrap();
    for data in [table.classification("class").unwrap(), table.classification(1).unwrap()] {
        assert_eq!(data.inputs().shape(), [2, 2]);
        assert_eq!(data.inputs().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(data.targets().to_vec::<i64>().unwrap(), [0, 2]);
    }
    let numbers = table.regression("y").unwrap();
    assert_eq!(numbers.targets().shape(), [2, 1]);
    assert_eq!(numbers.targets().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let missing = table.regression("z").unwrap_err().to_string();
    assert!(missing.contains("\"z\", expected one of the columns"), "{missing}");
    assert!(table.regression(3).is_err());
    let half = parse("a,b\n1,0.5\n", &Options::default()).unwrap();
    assert!(half.classification("b").unwrap_err().to_string().contains("0.5"));
    let named = read(folder.write("bad.csv", b"a\nx\n"), &Options::default());
    assert!(named.unwrap_err().to_string().contains("bad.csv: line 2, column 1"));
}
