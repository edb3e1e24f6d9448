// SPDX-License-Identifier: Apache-2.0

package template

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Lifetime is the block ttl of a template. In the settings of a server it is the lifetime
// of templates without one.
type Lifetime struct {
	Default  string   `hcl:"default"` // a duration, or "none": instances have no end
	Max      *string  `hcl:"max"`
	Extend   *string  `hcl:"extend"`
	Extends  *int     `hcl:"extends"`
	Failed   *string  `hcl:"failed"`
	OnExpire *string  `hcl:"on_expire"`
	Body     hcl.Body `hcl:",body"`
}

// TTL returns the lifetime that the block describes; nil: instances have no end. It calls
// report for each mistake, with its position.
func (l *Lifetime) TTL(report func(at hcl.Range, format string, args ...any)) *TTL {
	if l.Default == endless {
		extends := l.Extend != nil || l.Extends != nil
		if extends || l.Max != nil || l.Failed != nil || l.OnExpire != nil {
			report(l.At("default"), "ttl: with default %q there is no end, so it must be the only attribute", endless)
		}
		return nil
	}
	t := &TTL{Extends: or(l.Extends, 0), OnExpire: or(l.OnExpire, expireDestroy)}
	for _, f := range []struct {
		name string
		from *string
		to   *time.Duration
	}{{"default", &l.Default, &t.Default}, {"max", l.Max, &t.Max}, {"extend", l.Extend, &t.Extend}, {"failed", l.Failed, &t.Failed}} {
		if f.from == nil {
			continue
		}
		var ok bool
		if *f.to, ok = parseDuration(*f.from); !ok {
			report(l.At(f.name), "%s: %q is not a duration such as 30m or 72h", f.name, *f.from)
		}
	}
	l.check(t, report)
	return t
}

// At returns the position of an attribute, or of the block if it is missing.
func (l *Lifetime) At(attribute string) hcl.Range { return attributeRange(l.Body, attribute) }

func (l *Lifetime) check(t *TTL, report func(at hcl.Range, format string, args ...any)) {
	if t.OnExpire != expireDestroy && t.OnExpire != expireKeep {
		report(l.At("on_expire"), "on_expire %q is not %s or %s", t.OnExpire, expireDestroy, expireKeep)
	}
	if t.Extends < 0 || t.Extends > maxCount {
		report(l.At("extends"), "extends %d is not between 0 and %d", t.Extends, maxCount)
	}
	switch {
	case t.Default > 0 && t.Default < MinTTL:
		report(l.At("default"), "ttl: an instance lives at least %dm", MinTTL/time.Minute)
	case t.Max > 0 && t.Default > t.Max:
		report(l.At("max"), "ttl: max %s is less than default %s", t.Max, t.Default)
	case t.Max > 0 && t.Extend > t.Max:
		report(l.At("extend"), "ttl: extend %s is more than max %s", t.Extend, t.Max)
	case t.Extends > 0 && t.Extend == 0:
		report(l.At("extends"), "ttl: extends says how many times; extend, by how much, is missing")
	}
}

// parseDuration reads a duration of a template: more than zero, at most maxDuration.
func parseDuration(text string) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0 && d <= maxDuration
}

// attributeRange returns the position of an attribute, or of the body if it is missing.
func attributeRange(body hcl.Body, name string) hcl.Range {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	if content != nil {
		if a, ok := content.Attributes[name]; ok {
			return a.Range
		}
	}
	return body.MissingItemRange()
}
