//! Images and what is done to them.

use extensor::data::{Augment, Dataset, Images};
use extensor::{DType, Key, Tensor, tensor};

/// `count` images of `channels` × 4 × 5 with different bytes.
fn images(count: usize, channels: usize) -> Images {
    let bytes: Vec<u8> = (0..count * channels * 20).map(|i| (i * 37 % 255 + 1) as u8).collect();
    let labels: Vec<u8> = (0..count).map(|i| (i % 3) as u8).collect();
    let images = Tensor::from_vec(bytes, [count, channels, 4, 5]).unwrap();
    Images::new(images, tensor(labels)).unwrap()
}

#[test]
fn bytes_become_normalised_numbers_channel_by_channel() {
    let set = images(3, 2).normalize(&[0.25, 0.5], &[0.5, 0.1]).unwrap();
    let batch = set.batch(&[2, 0], Key::new(0)).unwrap();
    assert_eq!(batch.inputs.shape(), [2, 2, 4, 5]);
    assert_eq!(batch.targets.to_vec::<i64>().unwrap(), [2, 0]);
    let bytes = set.images().to_vec::<u8>().unwrap();
    for (i, &got) in batch.inputs.to_vec::<f32>().unwrap().iter().enumerate() {
        let (image, channel) = ([2, 0][i / 40], i / 20 % 2);
        let byte = f64::from(bytes[image * 40 + i % 40]);
        let expected = (byte / 255.0 - [0.25, 0.5][channel]) / [0.5, 0.1][channel];
        assert_eq!(got, expected as f32);
    }
}

#[test]
fn the_statistics_are_those_of_each_channel() {
    let set = images(4, 2);
    let numbers = set.batch(&[0, 1, 2, 3], Key::new(0)).unwrap().inputs.to_vec::<f32>().unwrap();
    for (channel, (mean, std)) in set.statistics().into_iter().enumerate() {
        let values = numbers.chunks(20).skip(channel).step_by(2).flatten().map(|&v| f64::from(v));
        let values: Vec<f64> = values.collect();
        let expected = values.iter().sum::<f64>() / 80.0;
        let variance = values.iter().map(|v| (v - expected).powi(2)).sum::<f64>() / 80.0;
        assert!((mean - expected).abs() < 1e-7 && (std - variance.sqrt()).abs() < 1e-7);
    }
}

#[test]
fn what_is_no_set_of_images_is_an_error() {
    let bytes = Tensor::zeros([2, 4, 5], DType::U8).unwrap();
    assert!(Images::new(bytes.clone(), tensor([0u8])).is_err());
    assert!(Images::new(bytes.clone(), tensor([0.0f32, 1.0])).is_err());
    assert!(Images::new(bytes.clone(), tensor([0i64, -1])).is_err());
    assert!(Images::new(Tensor::zeros([2, 4], DType::U8).unwrap(), tensor([0u8, 1])).is_err());
    assert!(Images::new(Tensor::zeros([2, 4, 5], DType::F32).unwrap(), tensor([0u8, 1])).is_err());
    let set = Images::new(bytes, tensor([0u8, 1])).unwrap();
    assert!(set.batch(&[2], Key::new(0)).is_err());
    assert!(set.clone().normalize(&[0.0, 0.0], &[1.0]).is_err());
    assert!(set.clone().normalize(&[0.0], &[0.0]).is_err());
    assert!(set.normalize(&[f64::NAN], &[1.0]).is_err());
}

/// The image moved and mirrored, slowly.
fn moved(image: &[f32], down: i64, right: i64, mirrored: bool) -> Vec<f32> {
    let pixel = |c: i64, y: i64, x: i64| {
        let x = if mirrored && (0..5).contains(&x) { 4 - x } else { x };
        let inside = (0..4).contains(&y) && (0..5).contains(&x);
        if inside { image[(c * 20 + y * 5 + x) as usize] } else { 0.0 }
    };
    let places = (0..40).map(|i| (i / 20, i / 5 % 4, i % 5));
    places.map(|(c, y, x)| pixel(c, y - down, x - right)).collect()
}

#[test]
fn every_shift_and_flip_happens_and_nothing_else() {
    let plain = images(1, 2);
    let image = plain.batch(&[0], Key::new(0)).unwrap().inputs.to_vec::<f32>().unwrap();
    let changed = plain.augment(Augment { shift: 2, flip: true });
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..2000 {
        let got = changed.batch(&[0], Key::new(seed)).unwrap().inputs.to_vec::<f32>().unwrap();
        let all = (0..50).map(|i| (i / 10 - 2, i / 2 % 5 - 2, i % 2 == 1));
        let found = all.into_iter().find(|&(d, r, m)| moved(&image, d, r, m) == got);
        *seen.entry(found.expect("a shift by up to 2 and a flip or none")).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 50);
    assert!(seen.values().all(|&count| (12..80).contains(&count)), "{seen:?}");
}

#[test]
fn an_image_is_changed_by_key_and_number_alone() {
    let set = images(9, 1).augment(Augment { shift: 1, flip: true });
    let key = Key::new(5);
    let all = set.batch(&[0, 1, 2, 3, 4, 5, 6, 7, 8], key).unwrap().inputs.to_vec::<f32>().unwrap();
    for i in 0..9 {
        let alone = set.batch(&[i], key).unwrap().inputs.to_vec::<f32>().unwrap();
        assert_eq!(alone, all[i * 20..(i + 1) * 20]);
    }
    let other = set.batch(&[0, 1, 2, 3, 4, 5, 6, 7, 8], Key::new(6)).unwrap();
    assert_ne!(other.inputs.to_vec::<f32>().unwrap(), all);
}

#[test]
fn a_shift_beyond_the_image_gives_an_empty_one_at_most() {
    let set = images(1, 1).augment(Augment { shift: usize::MAX, flip: false });
    for seed in 0..50 {
        assert_eq!(set.batch(&[0], Key::new(seed)).unwrap().inputs.shape(), [1, 1, 4, 5]);
    }
}

#[test]
fn equal_images_are_changed_each_in_its_own_way() {
    let bytes: Vec<u8> = (0..20 * 64).map(|i| (i % 20 + 1) as u8).collect();
    let same = Tensor::from_vec(bytes, [64, 4, 5]).unwrap();
    let set = Images::new(same, Tensor::zeros([64], DType::U8).unwrap()).unwrap();
    let set = set.augment(Augment { shift: 2, flip: true });
    let indices: Vec<usize> = (0..64).collect();
    let inputs = set.batch(&indices, Key::new(1)).unwrap().inputs.to_vec::<f32>().unwrap();
    let mut kinds: Vec<&[f32]> = inputs.chunks(20).collect();
    kinds.sort_by(|a, b| a.partial_cmp(b).unwrap());
    kinds.dedup();
    // Of 50 kinds 64 draws give 36 on average.
    assert!(kinds.len() > 25, "{}", kinds.len());
}
