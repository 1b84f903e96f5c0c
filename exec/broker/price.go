package broker

import (
	"fmt"
	"math"
	"math/big"

	"foundry/plan"
)

// price is a model's price in micro-USD for one token, exact.
type price struct {
	input, output, cacheRead, cacheWrite *big.Rat
	maxOutput                            int64
}

// priceOf reads the decimals of a plan: USD for a million tokens is micro-USD
// for one.
func priceOf(m plan.Model) (price, error) {
	p := price{maxOutput: m.MaxOutput}
	for _, f := range []struct {
		to   **big.Rat
		text string
	}{{&p.input, m.Price.Input}, {&p.output, m.Price.Output}, {&p.cacheRead, m.Price.CacheRead}, {&p.cacheWrite, m.Price.CacheWrite}} {
		r, ok := new(big.Rat).SetString(f.text)
		if !ok || r.Sign() < 0 {
			return price{}, fmt.Errorf("broker: the model %s has the price %q, which is no decimal number", m.ID, f.text)
		}
		*f.to = r
	}
	return p, nil
}

// cost rounds up: a part of a micro-dollar is spent, too.
func (p price) cost(u usage) int64 {
	sum := new(big.Rat)
	for _, part := range []struct {
		tokens int64
		each   *big.Rat
	}{{u.Input, p.input}, {u.Output, p.output}, {u.CacheRead, p.cacheRead}, {u.CacheWrite, p.cacheWrite}} {
		sum.Add(sum, new(big.Rat).Mul(part.each, new(big.Rat).SetInt64(part.tokens)))
	}
	return ceil(sum)
}

// inputBound is the most that so many tokens of input can cost, cached or not.
func (p price) inputBound(tokens int64) int64 {
	dearest := p.input
	for _, r := range []*big.Rat{p.cacheRead, p.cacheWrite} {
		if r.Cmp(dearest) > 0 {
			dearest = r
		}
	}
	return ceil(new(big.Rat).Mul(dearest, new(big.Rat).SetInt64(tokens)))
}

// affordable is how many output tokens a sum pays for.
func (p price) affordable(cost int64) int64 {
	if cost <= 0 {
		return 0
	}
	if p.output.Sign() == 0 {
		return math.MaxInt64
	}
	q := new(big.Rat).Quo(new(big.Rat).SetInt64(cost), p.output)
	n := new(big.Int).Quo(q.Num(), q.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

func ceil(r *big.Rat) int64 {
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	if up.Div(up, r.Denom()); !up.IsInt64() {
		return most
	}
	return up.Int64()
}
