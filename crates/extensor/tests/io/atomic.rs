use crate::{Folder, again, asked};
use extensor::Error;
use extensor::io::atomic::{clean, write};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};

#[test]
fn a_file_is_written_and_replaced_and_nothing_else_is_left() {
    let folder = Folder::new("replaced");
    let path = folder.path("a.txt");
    write(&path, |file| file.write_all(b"one")).unwrap();
    write(&path, |file| file.write_all(&[b'2'; 200_000])).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [b'2'; 200_000]);
    assert_eq!(folder.names(), ["a.txt"]);
}

#[test]
fn an_error_or_a_panic_leaves_the_old_file_and_no_other() {
    let folder = Folder::new("failed");
    let path = folder.path("a.txt");
    write(&path, |file| file.write_all(b"old")).unwrap();
    let failed = write(&path, |file| {
        file.write_all(b"new")?;
        Err(io::Error::other("the pen broke"))
    });
    let message = failed.unwrap_err().to_string();
    assert!(message.contains("a.txt") && message.contains("the pen broke"), "{message}");
    let panicked = std::panic::catch_unwind(|| write(&path, |_| panic!("out of ink")));
    assert!(panicked.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["a.txt"]);
}

#[test]
fn an_error_of_ours_comes_back_as_it_was() {
    let folder = Folder::new("ours");
    let ours = Error::DivisionByZero { op: "test" };
    let got = write(folder.path("a"), |_| Err(io::Error::other(ours.clone())));
    assert_eq!(got, Err(ours));
}

#[test]
fn a_folder_that_is_not_there_and_a_path_that_is_a_folder_are_errors() {
    let folder = Folder::new("nowhere");
    for path in [folder.path("missing/a.txt"), folder.path("")] {
        let error = write(&path, |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
    }
    assert!(folder.names().is_empty());
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_what_it_points_to_is_replaced() {
    let folder = Folder::new("link");
    fs::write(folder.path("real"), "old").unwrap();
    std::os::unix::fs::symlink(folder.path("real"), folder.path("link")).unwrap();
    write(folder.path("link"), |file| file.write_all(b"new")).unwrap();
    assert_eq!(fs::read(folder.path("real")).unwrap(), b"new");
    assert!(fs::symlink_metadata(folder.path("link")).unwrap().is_symlink());
}

#[test]
fn many_writers_of_one_file_leave_one_of_their_versions() {
    let folder = Folder::new("race");
    let path = folder.path("a");
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..10 {
                    write(path, |file| file.write_all(&[writer; 10_000])).unwrap();
                    let seen = fs::read(path).unwrap();
                    assert!(seen.len() == 10_000 && seen.iter().all(|b| *b == seen[0]));
                }
            });
        }
        // Cleaning meanwhile takes a file away before its writer has begun, if at all.
        scope.spawn(|| (0..1000).for_each(|_| assert!(clean(folder.path("")).is_ok())));
    });
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn cleaning_removes_our_leftovers_only() {
    let folder = Folder::new("clean");
    let others = [".extensor-1-.tmp", ".extensor-1-2.txt", "extensor-1-2.tmp", ".extensor-a-2.tmp"];
    for name in others.iter().chain(&[".extensor-1-2.tmp", ".extensor-77-0.tmp"]) {
        fs::write(folder.path(name), "x").unwrap();
    }
    assert_eq!(clean(folder.path("")).unwrap(), 2);
    let mut expected = others.to_vec();
    expected.sort();
    assert_eq!(folder.names(), expected);
    assert!(clean(folder.path("missing")).is_err());
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_file_and_no_other() {
    if let Some(path) = asked("EXTENSOR_TEST_FULL") {
        let error = write(path, |file| file.write_all(&[1; 1 << 20])).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        println!("refused: {error}");
        return;
    }
    let folder = Folder::new("full");
    let path = folder.path("a");
    write(&path, |file| file.write_all(b"old")).unwrap();
    // The largest file is 32 blocks; the signal is ignored, so that writing fails instead.
    let test = "atomic::a_full_disk_leaves_the_old_file_and_no_other";
    let limits = "trap '' XFSZ; ulimit -f 32;";
    let mut child = again(test, limits, "EXTENSOR_TEST_FULL", path.to_str().unwrap());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("refused: atomic::write"), "{output:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["a"]);
}

#[cfg(unix)]
#[test]
fn a_kill_leaves_the_old_file_and_a_leftover_that_is_cleaned_once_nobody_writes_it() {
    if let Some(path) = asked("EXTENSOR_TEST_KILL") {
        let _ = write(path, |file| {
            file.write_all(&[1; 1 << 20])?;
            println!("half");
            io::stdout().flush()?;
            std::thread::sleep(std::time::Duration::from_secs(60));
            Ok(())
        });
        return;
    }
    let folder = Folder::new("kill");
    let path = folder.path("a");
    write(&path, |file| file.write_all(b"old")).unwrap();
    let test =
        "atomic::a_kill_leaves_the_old_file_and_a_leftover_that_is_cleaned_once_nobody_writes_it";
    let mut child = again(test, "", "EXTENSOR_TEST_KILL", path.to_str().unwrap()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("half")));
    assert_eq!(folder.names().len(), 2);
    assert_eq!(clean(folder.path("")).unwrap(), 0, "it is still being written");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(clean(folder.path("")).unwrap(), 1);
    assert_eq!(folder.names(), ["a"]);
}
