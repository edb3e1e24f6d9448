// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// maxSteps bounds loops: the expression's size to the power of their number plus one.
	maxSteps = 10_000_000
	// maxArithmetic bounds a value's operators, each of which can double the digits.
	maxArithmetic = 100
)

func checkBody(body *hclsyntax.Body) error {
	for _, a := range body.Attributes {
		if err := CheckValue(a.Expr); err != nil {
			return err
		}
	}
	for _, b := range body.Blocks {
		if err := checkBody(b.Body); err != nil {
			return err
		}
	}
	return nil
}

// CheckValue bounds computing a value without variables, as a default.
func CheckValue(node hclsyntax.Expression) error {
	loops := 0
	arithmetic := 0
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		case *hclsyntax.ForExpr:
			loops++
		case *hclsyntax.BinaryOpExpr:
			arithmetic++
		}
		return nil
	})
	at := node.Range()
	size := float64(at.End.Byte - at.Start.Byte)
	if arithmetic > maxArithmetic {
		return refusedAt(at, "a value computed with more than %d operators", maxArithmetic)
	}
	if loops > 0 && math.Pow(size, float64(loops+1)) > maxSteps {
		return refusedAt(at, "a value computed with %d loops over too much text", loops)
	}
	return nil
}
