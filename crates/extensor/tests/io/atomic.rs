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

#[cfg(unix)]
mod what_is_there {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::process::Command;

    fn pipe(folder: &Folder) -> std::path::PathBuf {
        let path = folder.path("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn a_named_pipe_is_written_through_and_stays_one() {
        let folder = Folder::new("pipe");
        let path = pipe(&folder);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        write(&path, |file| file.write_all(&[b'7'; 200_000])).unwrap();
        assert_eq!(reader.join().unwrap(), [b'7'; 200_000]);
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(folder.names(), ["pipe"]);
    }

    /// Of one of its own: a mistake must not cost the machine its `/dev/null`.
    #[test]
    fn a_device_is_written_through_by_its_name_and_by_a_link_to_it() {
        let folder = Folder::new("device");
        let device = folder.path("null");
        let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output().unwrap();
        if !made.status.success() || fs::OpenOptions::new().write(true).open(&device).is_err() {
            println!("skipped: devices can be made by the administrator only");
            return;
        }
        symlink("null", folder.path("nowhere")).unwrap();
        for path in [&device, &folder.path("nowhere")] {
            write(path, |file| file.write_all(b"gone")).unwrap();
            assert!(fs::symlink_metadata(&device).unwrap().file_type().is_char_device());
        }
        assert_eq!(folder.names(), ["nowhere", "null"]);
    }

    #[test]
    fn the_standard_output_is_written_through_to_a_pipe_and_to_a_file() {
        if let Some(path) = asked("EXTENSOR_TEST_STDOUT") {
            write(path, |file| file.write_all(b"<said>")).unwrap();
            return;
        }
        let folder = Folder::new("stdout");
        let name = "the_standard_output_is_written_through_to_a_pipe_and_to_a_file";
        let name = format!("atomic::what_is_there::{name}");
        let run = || again(&name, "", "EXTENSOR_TEST_STDOUT", "/dev/stdout");
        let said = run().output().unwrap();
        assert!(String::from_utf8_lossy(&said.stdout).contains("<said>"), "{said:?}");
        let path = folder.path("out.txt");
        let out = fs::File::create(&path).unwrap();
        let inode = out.metadata().unwrap().ino();
        assert!(run().stdout(out).status().unwrap().success());
        assert!(fs::read_to_string(&path).unwrap().contains("<said>"));
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!(folder.names(), ["out.txt"]);
    }

    #[test]
    fn permissions_and_owner_are_kept_from_the_first_byte_on() {
        let folder = Folder::new("access");
        let path = folder.path("secret");
        fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o640, 0o755] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            // Only the administrator can give it away.
            let _ = std::os::unix::fs::chown(&path, Some(1234), Some(4321));
            let before = fs::metadata(&path).unwrap();
            write(&path, |file| {
                let hidden = fs::read_dir(folder.path("")).unwrap().map(|e| e.unwrap());
                let hidden = hidden.filter(|e| e.file_name() != "secret");
                let modes: Vec<u32> =
                    hidden.map(|e| e.metadata().unwrap().mode() & 0o777).collect();
                assert_eq!(modes, [mode]);
                file.write_all(b"new")
            })
            .unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!(after.mode() & 0o777, mode);
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_ne!(after.ino(), before.ino());
        }
    }

    #[test]
    fn a_link_to_nothing_stays_and_what_it_points_to_is_made() {
        let folder = Folder::new("dangling");
        symlink("second", folder.path("first")).unwrap();
        symlink("real", folder.path("second")).unwrap();
        write(folder.path("first"), |file| file.write_all(b"made")).unwrap();
        assert_eq!(fs::read(folder.path("real")).unwrap(), b"made");
        for link in ["first", "second"] {
            assert!(fs::symlink_metadata(folder.path(link)).unwrap().is_symlink());
        }
        assert_eq!(folder.names(), ["first", "real", "second"]);
    }

    #[test]
    fn links_that_lead_in_a_circle_are_an_error_that_says_so() {
        let folder = Folder::new("circle");
        symlink("b", folder.path("a")).unwrap();
        symlink("a", folder.path("b")).unwrap();
        let error = write(folder.path("a"), |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("its symbolic links lead in a circle"), "{error}");
        assert_eq!(folder.names(), ["a", "b"]);
    }
}
