-- | Symbolic algebra in one variable: building, printing, deriving and simplifying expressions.
module Algebra
  ( Expr (..)
  , evaluate
  , derive
  , simplify
  , pretty
  , variables
  , size
  , depth
  , substitute
  ) where

import Data.List (nub, sort)
import qualified Data.Map as Map

-- | An arithmetic expression.
data Expr
  = Number Double
  | Variable String
  | Negate Expr
  | Add Expr Expr
  | Subtract Expr Expr
  | Multiply Expr Expr
  | Divide Expr Expr
  | Sin Expr
  | Cos Expr
  | Exp Expr
  | Log Expr
  deriving (Eq, Show)

-- | Values of the variables.
type Environment = Map.Map String Double

-- | The value of an expression, or the name of a variable that has none.
evaluate :: Environment -> Expr -> Either String Double
evaluate env expr = case expr of
  Number value -> Right value
  Variable name -> maybe (Left ("unknown variable " ++ name)) Right (Map.lookup name env)
  Negate inner -> negate <$> evaluate env inner
  Add left right -> (+) <$> evaluate env left <*> evaluate env right
  Subtract left right -> (-) <$> evaluate env left <*> evaluate env right
  Multiply left right -> (*) <$> evaluate env left <*> evaluate env right
  Divide left right -> (/) <$> evaluate env left <*> evaluate env right
  Sin inner -> sin <$> evaluate env inner
  Cos inner -> cos <$> evaluate env inner
  Exp inner -> exp <$> evaluate env inner
  Log inner -> log <$> evaluate env inner

-- | The number of nodes of an expression.
size :: Expr -> Int
size expr = case expr of
  Number _ -> 1
  Variable _ -> 1
  Negate inner -> 1 + size inner
  Add left right -> 1 + size left + size right
  Subtract left right -> 1 + size left + size right
  Multiply left right -> 1 + size left + size right
  Divide left right -> 1 + size left + size right
  Sin inner -> 1 + size inner
  Cos inner -> 1 + size inner
  Exp inner -> 1 + size inner
  Log inner -> 1 + size inner

-- | The length of the longest path from the root to a leaf.
depth :: Expr -> Int
depth expr = case expr of
  Number _ -> 1
  Variable _ -> 1
  Negate inner -> 1 + depth inner
  Add left right -> 1 + max (depth left) (depth right)
  Subtract left right -> 1 + max (depth left) (depth right)
  Multiply left right -> 1 + max (depth left) (depth right)
  Divide left right -> 1 + max (depth left) (depth right)
  Sin inner -> 1 + depth inner
  Cos inner -> 1 + depth inner
  Exp inner -> 1 + depth inner
  Log inner -> 1 + depth inner

-- | The variables of an expression, sorted, each once.
variables :: Expr -> [String]
variables = sort . nub . collect
  where
    collect expr = case expr of
      Number _ -> []
      Variable name -> [name]
      Negate inner -> collect inner
      Add left right -> collect left ++ collect right
      Subtract left right -> collect left ++ collect right
      Multiply left right -> collect left ++ collect right
      Divide left right -> collect left ++ collect right
      Sin inner -> collect inner
      Cos inner -> collect inner
      Exp inner -> collect inner
      Log inner -> collect inner

-- | Put an expression in the place of a variable.
substitute :: String -> Expr -> Expr -> Expr
substitute name new expr = case expr of
  Number value -> Number value
  Variable other
    | other == name -> new
    | otherwise -> Variable other
  Negate inner -> Negate (substitute name new inner)
  Add left right -> Add (substitute name new left) (substitute name new right)
  Subtract left right -> Subtract (substitute name new left) (substitute name new right)
  Multiply left right -> Multiply (substitute name new left) (substitute name new right)
  Divide left right -> Divide (substitute name new left) (substitute name new right)
  Sin inner -> Sin (substitute name new inner)
  Cos inner -> Cos (substitute name new inner)
  Exp inner -> Exp (substitute name new inner)
  Log inner -> Log (substitute name new inner)

-- | The derivative by a variable.
derive :: String -> Expr -> Expr
derive name expr = case expr of
  Number _ -> Number 0
  Variable other
    | other == name -> Number 1
    | otherwise -> Number 0
  Negate inner -> Negate (derive name inner)
  Add left right -> Add (derive name left) (derive name right)
  Subtract left right -> Subtract (derive name left) (derive name right)
  Multiply left right -> Add (Multiply (derive name left) right) (Multiply left (derive name right))
  Divide left right ->
    Divide (Subtract (Multiply (derive name left) right) (Multiply left (derive name right))) (Multiply right right)
  Sin inner -> Multiply (Cos inner) (derive name inner)
  Cos inner -> Negate (Multiply (Sin inner) (derive name inner))
  Exp inner -> Multiply (Exp inner) (derive name inner)
  Log inner -> Divide (derive name inner) inner

-- | Apply the obvious rules from the leaves upwards.
simplify :: Expr -> Expr
simplify expr = case expr of
  Add left right -> case (simplify left, simplify right) of
    (Number 0, other) -> other
    (other, Number 0) -> other
    (Number a, Number b) -> Number (a + b)
    (a, b) -> Add a b
  Multiply left right -> case (simplify left, simplify right) of
    (Number 0, _) -> Number 0
    (_, Number 0) -> Number 0
    (Number 1, other) -> other
    (other, Number 1) -> other
    (Number a, Number b) -> Number (a * b)
    (a, b) -> Multiply a b
  Negate inner -> case simplify inner of
    Number value -> Number (negate value)
    Negate other -> other
    other -> Negate other
  other -> other

-- | Write an expression with as few parentheses as its tree needs at most.
pretty :: Expr -> String
pretty expr = case expr of
  Number value -> show value
  Variable name -> name
  Negate inner -> "-" ++ atom inner
  Add left right -> atom left ++ " + " ++ atom right
  Subtract left right -> atom left ++ " - " ++ atom right
  Multiply left right -> atom left ++ " * " ++ atom right
  Divide left right -> atom left ++ " / " ++ atom right
  Sin inner -> "sin " ++ atom inner
  Cos inner -> "cos " ++ atom inner
  Exp inner -> "exp " ++ atom inner
  Log inner -> "log " ++ atom inner
  where
    atom inner = case inner of
      Number value | value >= 0 -> show value
      Variable name -> name
      _ -> "(" ++ pretty inner ++ ")"
