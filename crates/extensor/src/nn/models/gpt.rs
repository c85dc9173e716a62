//! A generative transformer.

use crate::nn::init;
use crate::nn::{
    Dropout, Embedding, LayerNorm, Linear, Mode, Model, MultiHeadAttention, Output, bad,
};
use crate::ops::{Approximate, AttentionOptions};
use crate::{DType, Error, Key, Result, Tensor, Tree, ops};

/// The sizes of a [`Gpt`]; the defaults are those of a model that learns a text's characters on a
/// processor in minutes.
///
/// ```
/// use extensor::nn::models::GptConfig;
/// let config = GptConfig { vocabulary: 100, dropout: 0.1, ..GptConfig::default() };
/// assert_eq!((config.layers, config.width, config.context), (4, 128, 64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptConfig {
    /// How many different tokens there are.
    pub vocabulary: usize,
    /// How many tokens, at most, it looks at.
    pub context: usize,
    /// How many blocks there are.
    pub layers: usize,
    /// How many heads attention has; a divisor of the width.
    pub heads: usize,
    /// The length of the vectors that tokens are turned into.
    pub width: usize,
    /// The probability with which, in training, a number of an embedding or of what a block adds is
    /// dropped.
    pub dropout: f64,
}

impl Default for GptConfig {
    fn default() -> GptConfig {
        GptConfig { vocabulary: 65, context: 64, layers: 4, heads: 4, width: 128, dropout: 0.0 }
    }
}

/// A generative transformer: for each of a row of tokens, how likely each token is to come next.
///
/// Tokens and positions are embedded and added; in each block, what attention to the tokens so far
/// and then a layer of four times the width with a GELU make of the normalised vectors is added to
/// them; the last are normalised and brought to a number for each token. The matrix that does that is
/// the model's own, not that of the embedding.
///
/// It begins as GPT-2: weights normally distributed with standard deviation 0.02, biases 0, and the
/// two matrices of each block whose results are added scaled down by `√(2·layers)`.
///
/// Its input is `[batch, length]` of a whole-number dtype, its result `[batch, length, vocabulary]`;
/// [`class_loss`](crate::nn::class_loss) takes both.
///
/// ```
/// use extensor::nn::{Mode, Model, class_loss, models::{Gpt, GptConfig}};
/// use extensor::{Key, tensor};
/// let config = GptConfig { vocabulary: 7, context: 8, layers: 1, heads: 2, width: 8, dropout: 0.0 };
/// let model = Gpt::new(Key::new(1), config)?;
/// let logits = model.forward(&tensor([[1i64, 2, 3], [4, 5, 6]]), &Mode::Inference)?.logits;
/// assert_eq!(logits.shape(), [2, 3, 7]);
/// let loss = class_loss(&logits, &tensor([[2i64, 3, 4], [5, 6, 0]]), 0.0)?.item::<f32>()?;
/// assert!((loss - 7f32.ln()).abs() < 0.1);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub struct Gpt {
    /// A vector for each token.
    pub tokens: Embedding,
    /// A vector for each position.
    pub positions: Embedding,
    /// The blocks, the first first.
    pub blocks: Vec<Block>,
    /// The last normalisation.
    pub norm: LayerNorm,
    /// To a number for each token.
    pub head: Linear,
    /// Its sizes.
    #[tree(static)]
    pub config: GptConfig,
}

/// One block of a [`Gpt`]: `x + attention(norm1(x))`, and to that `fc2(gelu(fc1(norm2(x))))`.
#[derive(Tree, Clone, Debug)]
pub struct Block {
    /// The normalisation before attention.
    pub norm1: LayerNorm,
    /// Attention to the tokens so far.
    pub attention: MultiHeadAttention,
    /// The normalisation before the other layers.
    pub norm2: LayerNorm,
    /// To four times the width.
    pub fc1: Linear,
    /// And back.
    pub fc2: Linear,
}

const OP: &str = "gpt";

/// A layer that begins as GPT-2's.
fn linear(key: Key, inputs: usize, outputs: usize, std: f64) -> Result<Linear> {
    let weight = init::normal(key, [outputs, inputs], 0.0, std, DType::F32)?;
    Ok(Linear { weight, bias: Some(Tensor::zeros([outputs], DType::F32)?) })
}

impl Block {
    fn new(key: Key, config: &GptConfig) -> Result<Block> {
        let width = config.width;
        let Some(four) = width.checked_mul(4) else {
            return Err(Error::Overflow { op: OP, shape: [4, width, width].into() });
        };
        let added = 0.02 / (2.0 * config.layers as f64).sqrt();
        let [a, b, c, d] = key.split();
        let attention = MultiHeadAttention::new(a, width, config.heads)?;
        let shape = attention.in_proj_weight.shape().clone();
        Ok(Block {
            norm1: LayerNorm::new([width])?,
            attention: MultiHeadAttention {
                in_proj_weight: init::normal(a, shape, 0.0, 0.02, DType::F32)?,
                out_proj: linear(b, width, width, added)?,
                ..attention
            },
            norm2: LayerNorm::new([width])?,
            fc1: linear(c, width, four, 0.02)?,
            fc2: linear(d, four, width, added)?,
        })
    }

    fn forward(&self, x: &Tensor, dropout: Dropout, mode: &Mode) -> Result<Tensor> {
        let seen = self.norm1.forward(x)?;
        let causal = AttentionOptions::new().causal(true);
        let found = self.attention.attend(&seen, &seen, &seen, causal)?;
        let x = ops::add(x, &dropout.forward(&found, &mode.split(0))?)?;
        let wide = ops::gelu(&self.fc1.forward(&self.norm2.forward(&x)?)?, Approximate::None)?;
        ops::add(&x, &dropout.forward(&self.fc2.forward(&wide)?, &mode.split(1))?)
    }
}

impl Gpt {
    /// A model of these sizes.
    pub fn new(key: Key, config: GptConfig) -> Result<Gpt> {
        let GptConfig { vocabulary, context, layers, width, dropout, .. } = config;
        for (parameter, size) in [("vocabulary", vocabulary), ("context", context)] {
            if size == 0 {
                return bad(OP, parameter, "at least 1", size);
            }
        }
        if !(0.0..1.0).contains(&dropout) {
            return bad(OP, "dropout", "a number from 0 up to 1", dropout);
        }
        let [a, b, c, d] = key.split();
        let table = |key: Key, rows| init::normal(key, [rows, width], 0.0, 0.02, DType::F32);
        let blocks = (0..layers).map(|i| Block::new(c.fold_in(i as u64), &config));
        Ok(Gpt {
            tokens: Embedding { weight: table(a, vocabulary)? },
            positions: Embedding { weight: table(b, context)? },
            blocks: blocks.collect::<Result<_>>()?,
            norm: LayerNorm::new([width])?,
            head: Linear { weight: table(d, vocabulary)?, bias: None },
            config,
        })
    }

    /// The last vector of each token, `[batch, length, width]`: what the head is given.
    fn vectors(&self, tokens: &Tensor, mode: &Mode) -> Result<Tensor> {
        let context = self.config.context;
        if tokens.ndim() != 2 || tokens.shape()[1] > context {
            let expected = format!("[batch, at most {context} tokens]");
            let got = tokens.shape().clone();
            return Err(Error::Shape { op: OP, argument: "tokens", expected, got });
        }
        let length = tokens.shape()[1] as i64;
        let positions = ops::slice(&self.positions.weight, 0, 0, length, 1)?;
        let dropout = Dropout::new(self.config.dropout);
        let mut x = ops::add(&self.tokens.forward(tokens)?, &positions)?;
        x = dropout.forward(&x, &mode.split(0))?;
        for (block, i) in self.blocks.iter().zip(1..) {
            x = block.forward(&x, dropout, &mode.split(i))?;
        }
        self.norm.forward(&x)
    }

    /// `count` tokens that continue `prompt`, each drawn from the model's distribution given those
    /// before it, as many as the context holds.
    ///
    /// Logits are divided by `temperature`; at 0 the most likely token is taken. With `top_k` only so
    /// many of the most likely tokens are drawn from. An empty prompt is an error.
    ///
    /// ```
    /// use extensor::{Key, nn::models::{Gpt, GptConfig}};
    /// let [a, b] = Key::new(1).split();
    /// let config = GptConfig { vocabulary: 5, layers: 1, width: 8, ..GptConfig::default() };
    /// let model = Gpt::new(a, config)?;
    /// let tokens = model.generate(&[0], 10, 0.8, Some(3), b)?;
    /// assert_eq!(tokens.len(), 10);
    /// assert_eq!(tokens, model.generate(&[0], 10, 0.8, Some(3), b)?);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn generate(
        &self,
        prompt: &[i64],
        count: usize,
        temperature: f64,
        top_k: Option<usize>,
        key: Key,
    ) -> Result<Vec<i64>> {
        let op = "generate";
        if prompt.is_empty() {
            return bad(op, "prompt", "at least one token", "none");
        }
        if !(temperature.is_finite() && temperature >= 0.0) {
            return bad(op, "temperature", "a finite number that is not negative", temperature);
        }
        if top_k == Some(0) {
            return bad(op, "top_k", "at least 1", 0);
        }
        let mut tokens = prompt.to_vec();
        for step in 0..count {
            let recent = &tokens[tokens.len().saturating_sub(self.config.context)..];
            let input = Tensor::from_slice(recent, [1, recent.len()])?;
            let vectors = self.vectors(&input, &Mode::Inference)?;
            let last = ops::slice(&vectors, 1, -1, None, 1)?;
            let logits = ops::cast(&self.head.forward(&last)?, DType::F64)?.to_vec::<f64>()?;
            if let Some(got) = logits.iter().find(|x| !x.is_finite()) {
                return bad(op, "a logit", "a finite number", got);
            }
            tokens.push(draw(&logits, temperature, top_k, key.fold_in(step as u64))?);
        }
        Ok(tokens.split_off(prompt.len()))
    }
}

/// A token drawn from the distribution that finite logits give.
fn draw(logits: &[f64], temperature: f64, top_k: Option<usize>, key: Key) -> Result<i64> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    order.truncate(top_k.unwrap_or(usize::MAX));
    let most = logits[order[0]];
    if temperature == 0.0 {
        return Ok(order[0] as i64);
    }
    let weights: Vec<f64> =
        order.iter().map(|&i| ((logits[i] - most) / temperature).exp()).collect();
    let mut left =
        key.uniform([], 0.0, 1.0, DType::F64)?.item::<f64>()? * weights.iter().sum::<f64>();
    for (&token, weight) in order.iter().zip(&weights) {
        left -= weight;
        if left < 0.0 {
            return Ok(token as i64);
        }
    }
    Ok(order[0] as i64)
}

impl Model for Gpt {
    fn forward(&self, tokens: &Tensor, mode: &Mode) -> Result<Output<Gpt>> {
        Ok(Output::stateless(self.head.forward(&self.vectors(tokens, mode)?)?))
    }
}
