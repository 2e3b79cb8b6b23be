//! An arithmetic expression evaluator: a lexer, a Pratt parser and a tree walker.

use std::collections::HashMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Number(f64),
    Name(String),
    Plus,
    Minus,
    Star,
    Slash,
    Caret,
    LeftParen,
    RightParen,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EvalError {
    UnexpectedCharacter(char),
    UnexpectedToken(Token),
    UnexpectedEnd,
    UnknownName(String),
    DivisionByZero,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(value) => write!(f, "{}", value),
            Token::Name(name) => write!(f, "{}", name),
            Token::Plus => write!(f, "+"),
            Token::Minus => write!(f, "-"),
            Token::Star => write!(f, "*"),
            Token::Slash => write!(f, "/"),
            Token::Caret => write!(f, "^"),
            Token::LeftParen => write!(f, "("),
            Token::RightParen => write!(f, ")"),
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::UnexpectedCharacter(found) => write!(f, "unexpected character {}", found),
            EvalError::UnexpectedToken(found) => write!(f, "unexpected token {}", found),
            EvalError::UnexpectedEnd => write!(f, "unexpected end of input"),
            EvalError::UnknownName(name) => write!(f, "unknown name {}", name),
            EvalError::DivisionByZero => write!(f, "division by zero"),
        }
    }
}

impl std::error::Error for EvalError {}

#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Number(f64),
    Name(String),
    Negate(Box<Expr>),
    Binary(Box<Expr>, Token, Box<Expr>),
}

pub fn tokenize(source: &str) -> Result<Vec<Token>, EvalError> {
    let characters: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        let start = index;
        index += 1;
        match characters[start] {
            ' ' | '\t' | '\n' => continue,
            '+' => tokens.push(Token::Plus),
            '-' => tokens.push(Token::Minus),
            '*' => tokens.push(Token::Star),
            '/' => tokens.push(Token::Slash),
            '^' => tokens.push(Token::Caret),
            '(' => tokens.push(Token::LeftParen),
            ')' => tokens.push(Token::RightParen),
            c if c.is_ascii_digit() => {
                while index < characters.len() && (characters[index].is_ascii_digit() || characters[index] == '.') {
                    index += 1;
                }
                let text: String = characters[start..index].iter().collect();
                tokens.push(Token::Number(text.parse().map_err(|_| EvalError::UnexpectedCharacter(c))?));
            }
            c if c.is_alphabetic() => {
                while index < characters.len() && characters[index].is_alphanumeric() {
                    index += 1;
                }
                let text: String = characters[start..index].iter().collect();
                tokens.push(Token::Name(text));
            }
            c => return Err(EvalError::UnexpectedCharacter(c)),
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn next(&mut self) -> Result<Token, EvalError> {
        let token = self.tokens.get(self.position).cloned().ok_or(EvalError::UnexpectedEnd)?;
        self.position += 1;
        Ok(token)
    }

    fn expression(&mut self, least_power: u8) -> Result<Expr, EvalError> {
        let mut left = match self.next()? {
            Token::Number(value) => Expr::Number(value),
            Token::Name(name) => Expr::Name(name),
            Token::Minus => Expr::Negate(Box::new(self.expression(5)?)),
            Token::LeftParen => {
                let inner = self.expression(0)?;
                match self.next()? {
                    Token::RightParen => inner,
                    other => return Err(EvalError::UnexpectedToken(other)),
                }
            }
            other => return Err(EvalError::UnexpectedToken(other)),
        };
        while let Some((left_power, right_power)) = self.peek().and_then(binding_power) {
            if left_power < least_power {
                break;
            }
            let operator = self.next()?;
            let right = self.expression(right_power)?;
            left = Expr::Binary(Box::new(left), operator, Box::new(right));
        }
        Ok(left)
    }
}

fn binding_power(token: &Token) -> Option<(u8, u8)> {
    match token {
        Token::Plus => Some((1, 2)),
        Token::Minus => Some((1, 2)),
        Token::Star => Some((3, 4)),
        Token::Slash => Some((3, 4)),
        Token::Caret => Some((8, 7)),
        _ => None,
    }
}

pub fn evaluate(expr: &Expr, names: &HashMap<String, f64>) -> Result<f64, EvalError> {
    match expr {
        Expr::Number(value) => Ok(*value),
        Expr::Name(name) => names.get(name).copied().ok_or_else(|| EvalError::UnknownName(name.clone())),
        Expr::Negate(inner) => Ok(-evaluate(inner, names)?),
        Expr::Binary(left, operator, right) => {
            let left = evaluate(left, names)?;
            let right = evaluate(right, names)?;
            match operator {
                Token::Plus => Ok(left + right),
                Token::Minus => Ok(left - right),
                Token::Star => Ok(left * right),
                Token::Slash if right == 0.0 => Err(EvalError::DivisionByZero),
                Token::Slash => Ok(left / right),
                Token::Caret => Ok(left.powf(right)),
                other => Err(EvalError::UnexpectedToken(other.clone())),
            }
        }
    }
}

pub fn calculate(source: &str, names: &HashMap<String, f64>) -> Result<f64, EvalError> {
    let mut parser = Parser { tokens: tokenize(source)?, position: 0 };
    let expr = parser.expression(0)?;
    match parser.peek() {
        None => evaluate(&expr, names),
        Some(token) => Err(EvalError::UnexpectedToken(token.clone())),
    }
}
