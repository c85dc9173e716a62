//! Checkpoints that are damaged, folders that two want, evaluations that are interrupted.

use extensor::data::{Batch, Loader, Pairs};
use extensor::io::safetensors::{self, Contents};
use extensor::ops::{Reduce, linear, mean_squared_error};
use extensor::optim::Sgd;
use extensor::train::{Claim, Directory, End, Evaluation, FitOptions, Hooks, Plan, State, Trainer};
use extensor::{DType, Error, Key, Result, Tensor, tensor};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-chk-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn state() -> State<Tensor> {
    let weight = Key::new(2).normal([1, 3], DType::F32).unwrap();
    State::new(weight, &Sgd::new(0.1).momentum(0.9), Key::new(9)).unwrap()
}

#[test]
fn a_flipped_bit_anywhere_in_a_checkpoint_is_an_error() {
    let bytes = state().contents().to_bytes().unwrap();
    let load = |bytes: Vec<u8>| state().load(&safetensors::parse(bytes)?);
    assert_eq!(load(bytes.clone()).unwrap().step, 0);
    let data = bytes.len() - 2 * 3 * 4;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let found = load(damaged).map(|state| state.step);
            let error = found.expect_err(&format!("bit {bit} of byte {at}")).to_string();
            let says_so = error.contains("is damaged: its bytes have another checksum");
            assert!(says_so || at < data, "bit {bit} of byte {at}: {error}");
        }
    }
}

/// A checkpoint as it was written before there were checksums.
fn old() -> Vec<u8> {
    let bytes = state().contents().to_bytes().unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let mut header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let metadata = header["__metadata__"].as_object_mut().unwrap();
    assert!(metadata.remove("extensor.crc32").is_some());
    metadata["format"] = "extensor checkpoint 1".into();
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

#[test]
fn files_of_others_and_old_checkpoints_have_no_checksums_and_load() {
    let others = r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut bytes = (others.len() as u64).to_le_bytes().to_vec();
    bytes.extend(others.as_bytes());
    bytes.extend(1.5f32.to_le_bytes());
    let file = safetensors::parse(bytes).unwrap();
    assert_eq!(file.tensor("x").unwrap().item::<f32>().unwrap(), 1.5);
    assert!(file.expect_checksums().unwrap_err().to_string().contains("no checksums"));
    let loaded = state().load(&safetensors::parse(old()).unwrap()).unwrap();
    assert_eq!(loaded.model.to_f64_vec(), state().model.to_f64_vec());
}

#[test]
fn checksums_are_metadata_that_nobody_sees_here_and_the_bytes_stay_the_same() {
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let contents = || Contents::new().with("", &[tensor([1.0f32]), tensor([2.0f32])]).to_bytes();
    assert_eq!(contents().unwrap(), contents().unwrap());
    let folder = folder("metadata");
    let path = folder.join("a.safetensors");
    safetensors::save(&path, &tensor([1.0f32, 2.0]), &metadata).unwrap();
    let file = safetensors::load(&path).unwrap();
    assert_eq!(*file.metadata(), metadata);
    file.expect_checksums().unwrap();
    // Metadata of a file that is saved again has its own checksums, not those of the first.
    safetensors::save(&path, &tensor([3.0f32, 2.0]), file.metadata()).unwrap();
    safetensors::load(&path).unwrap().tensor("tensor").unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_belongs_to_one_process_and_the_error_names_it() {
    let folder = folder("claim");
    if let Ok(path) = std::env::var("EXTENSOR_TEST_CLAIM") {
        let _claim = Claim::on(path).unwrap();
        println!("claimed");
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let name = "a_folder_belongs_to_one_process_and_the_error_names_it";
    let mut other = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("EXTENSOR_TEST_CLAIM", &folder)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(other.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("claimed") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
    }
    let directory = Directory::open(&folder, 2).unwrap();
    let error = run(&directory, &mut ()).map(|_| ()).unwrap_err().to_string();
    let expected = format!("process {} is training in this folder", other.id());
    assert!(error.contains(&expected), "{error}");
    assert!(directory.steps().unwrap().is_empty());
    // The system takes the lock away with the process, however that ends.
    other.kill().unwrap();
    other.wait().unwrap();
    run(&directory, &mut ()).unwrap();
    assert!(Claim::on(&folder).is_err());
    drop(directory);
    Claim::on(&folder).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

fn run(directory: &Directory, hooks: &mut impl Hooks<Tensor>) -> Result<(State<Tensor>, End)> {
    let load = |path: &Path| state().load(&safetensors::load(path)?);
    let start = directory.newest(load)?.map_or_else(state, |found| found.loaded);
    let x = Key::new(1).normal([24, 3], DType::F32)?;
    let y = linear(&x, &tensor([[1.0f32, -2.0, 0.5]]), None)?;
    let loader = Loader::new(Pairs::new(x, y)?, 4, Key::new(4))?.shuffle(true);
    let optimizer = Sgd::new(0.1).momentum(0.9);
    let loss = |weight: &Tensor, batch: &Batch, _: &_| {
        let y = linear(&batch.inputs, weight, None)?;
        mean_squared_error(&y, &batch.targets, Reduce::Mean)
    };
    let mut trainer = Trainer::from_state(start, optimizer);
    let options = FitOptions::new(Plan::new(12).evaluate_every(4));
    let end = trainer.fit(&loader, loss, options.directory(directory).hooks(hooks))?;
    Ok((trainer.state, end))
}

/// Interrupts the evaluations of these numbers, from 0 on.
struct Interrupts {
    at: Vec<u64>,
    seen: u64,
    found: Vec<(u64, u64, f64)>,
}

impl Hooks<Tensor> for Interrupts {
    fn evaluate(&mut self, weight: &Tensor) -> Result<Option<Evaluation>> {
        self.seen += 1;
        if self.at.contains(&(self.seen - 1)) {
            return Err(Error::Interrupted);
        }
        let score = f64::from(weight.to_vec::<f32>()?[0]);
        Ok(Some(Evaluation { score, metrics: vec![] }))
    }

    fn evaluated(
        &mut self,
        step: u64,
        epoch: u64,
        found: &Evaluation,
        _: bool,
    ) -> Result<extensor::train::Flow> {
        self.found.push((step, epoch, found.score));
        Ok(extensor::train::Flow::Continue)
    }
}

#[test]
fn an_interrupted_evaluation_is_made_when_the_run_goes_on_with_the_same_bits() {
    let (whole, part) = (folder("whole"), folder("part"));
    let mut never = Interrupts { at: vec![], seen: 0, found: vec![] };
    let directory = Directory::open(&whole, 20).unwrap();
    assert_eq!(run(&directory, &mut never).unwrap().1, End::Done);
    let steps: Vec<(u64, u64)> = never.found.iter().map(|f| (f.0, f.1)).collect();
    assert_eq!(steps, [(4, 0), (8, 1), (12, 1)]);

    let directory = Directory::open(&part, 20).unwrap();
    // The first once, the second twice, and the one after the last step.
    let mut often = Interrupts { at: vec![0, 2, 3, 5], seen: 0, found: vec![] };
    let mut ends = Vec::new();
    loop {
        let (state, end) = run(&directory, &mut often).unwrap();
        ends.push((state.step, state.due, end));
        if end == End::Done {
            break;
        }
    }
    let stopped = |step| (step, true, End::Stopped);
    let expected = [stopped(4), stopped(8), stopped(8), stopped(12), (12, false, End::Done)];
    assert_eq!(ends, expected);
    assert_eq!(often.found, never.found);
    for step in [0u64, 4, 8, 12] {
        let name = format!("step-{step:09}.safetensors");
        assert_eq!(fs::read(whole.join(&name)).unwrap(), fs::read(part.join(&name)).unwrap());
    }
    fs::remove_dir_all(whole).unwrap();
    fs::remove_dir_all(part).unwrap();
}
