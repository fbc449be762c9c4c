package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityQuestion struct {
	Q *string `json:"q"`
	A *string `json:"a"`
	B *string `json:"b"`
}

type quantityAnswer struct {
	// String is what Kubernetes writes back. It is not always canonical: a quantity that was parsed on the
	// short path remembers its text.
	String    string `json:"string"`
	Canonical string `json:"canonical"`
	Format    string `json:"format"`
	// Exact is the value as decimal text: neither rounded up nor wrapped at 64 bits, as the next two are.
	Exact      string `json:"exact"`
	Value      int64  `json:"value"`
	MilliValue int64  `json:"milliValue"`
}

type comparison struct {
	Compare int `json:"compare"`
}

// runQuantity answers {"q": "1.5Gi"} with what ParseQuantity makes of it, {"a": "1", "b": "1000m"} with -1, 0 or 1.
func runQuantity() int { return runOracle(answerQuantity) }

func answerQuantity(line []byte) (any, error) {
	var question quantityQuestion
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	switch {
	case question.Q != nil && question.A == nil && question.B == nil:
		return describeQuantity(*question.Q)
	case question.Q == nil && question.A != nil && question.B != nil:
		return compareQuantities(*question.A, *question.B)
	default:
		return nil, errors.New(`want {"q": TEXT} or {"a": TEXT, "b": TEXT}`)
	}
}

func describeQuantity(text string) (any, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, err
	}
	number, suffix := quantity.CanonicalizeBytes(nil)
	exact := quantity.DeepCopy() // AsDec changes its receiver
	return quantityAnswer{
		String:     quantity.String(),
		Canonical:  string(number) + string(suffix),
		Format:     string(quantity.Format),
		Exact:      plainDecimal(exact.AsDec().String()),
		Value:      quantity.Value(),
		MilliValue: quantity.MilliValue(),
	}, nil
}

// plainDecimal drops the zeros behind the point that are left over from rounding to nanos.
func plainDecimal(text string) string {
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func compareQuantities(left, right string) (any, error) {
	a, err := resource.ParseQuantity(left)
	if err != nil {
		return nil, fmt.Errorf("a: %w", err)
	}
	b, err := resource.ParseQuantity(right)
	if err != nil {
		return nil, fmt.Errorf("b: %w", err)
	}
	return comparison{Compare: a.Cmp(b)}, nil
}
