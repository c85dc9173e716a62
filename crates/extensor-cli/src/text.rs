//! Text of a GPT, and where it looks.

use extensor::data::text::Vocabulary;
use extensor::nn::models::Gpt;
use extensor::ops::{Approximate, AttentionOptions, add, cast, gelu, linear, slice};
use extensor::{Error, Key, Result, Tensor};

/// `prompt` and `count` letters that the model makes of it.
pub fn sample(
    model: &Gpt,
    letters: &str,
    prompt: &str,
    count: usize,
    temperature: f64,
    seed: u64,
) -> std::result::Result<String, String> {
    let made = || -> Result<String> {
        let vocabulary = Vocabulary::of(letters);
        let tokens = numbers(&vocabulary, prompt)?;
        let tokens = if tokens.is_empty() { vec![0] } else { tokens };
        let more = model.generate(&tokens, count, temperature, None, Key::new(seed))?;
        let more: Vec<usize> = more.into_iter().map(|t| t as usize).collect();
        Ok(format!("{prompt}{}", vocabulary.decode(&more)?))
    };
    made().map_err(|error| error.to_string())
}

fn numbers(vocabulary: &Vocabulary, text: &str) -> Result<Vec<i64>> {
    cast(&vocabulary.encode(text)?, extensor::DType::I64)?.to_vec::<i64>()
}

/// The weights of the last block's attention on a line: `[head][query][key]`.
pub fn attention(model: &Gpt, letters: &str, line: &str) -> Result<Vec<Vec<Vec<f64>>>> {
    let tokens = numbers(&Vocabulary::of(letters), line)?;
    let length = tokens.len();
    let input = Tensor::from_vec(tokens, [1, length])?;
    let positions = slice(&model.positions.weight, 0, 0, length as i64, 1)?;
    let mut x = add(&model.tokens.forward(&input)?, &positions)?;
    let Some((last, before)) = model.blocks.split_last() else {
        let (expected, got) = ("a model with blocks".into(), "none".into());
        return Err(Error::Inputs { op: "attention", expected, got });
    };
    for block in before {
        let seen = block.norm1.forward(&x)?;
        let causal = AttentionOptions::new().causal(true);
        x = add(&x, &block.attention.attend(&seen, &seen, &seen, causal)?)?;
        let wide = gelu(&block.fc1.forward(&block.norm2.forward(&x)?)?, Approximate::None)?;
        x = add(&x, &block.fc2.forward(&wide)?)?;
    }
    let layer = &last.attention;
    let seen = last.norm1.forward(&x)?;
    let all = linear(&seen, &layer.in_proj_weight, layer.in_proj_bias.as_ref())?;
    let values = all.to_f64_vec();
    let width = model.config.width;
    let size = width / layer.heads.max(1);
    // A row holds the query, the key and the value of a letter, each cut into heads.
    let part = |row: usize, which: usize, head: usize| {
        let start = row * 3 * width + which * width + head * size;
        &values[start..start + size]
    };
    let weights = |head: usize, i: usize| {
        let dot = |j: usize| -> f64 {
            part(i, 0, head).iter().zip(part(j, 1, head)).map(|(q, k)| q * k).sum()
        };
        let scores: Vec<f64> = (0..=i).map(|j| dot(j) / (size as f64).sqrt()).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        let share = |j: usize| scores.get(j).map_or(0.0, |s| (s - most).exp() / sum);
        (0..length).map(share).collect::<Vec<f64>>()
    };
    Ok((0..layer.heads).map(|h| (0..length).map(|i| weights(h, i)).collect()).collect())
}
