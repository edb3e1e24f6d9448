// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of a template's values, which hold for a stored template too.
const (
	MinTTL     = 10 * time.Minute
	MaxTimeout = 24 * time.Hour
	MaxRetries = 10
	MaxNotices = 10
)

// Further bounds of a template's values.
const (
	maxDuration    = 10 * 365 * 24 * time.Hour
	maxCount       = 10_000 // instances
	maxList        = 100    // names
	maxTitle       = 100    // characters
	maxDescription = 4000
	maxPattern     = 1000
	maxWhen        = 10 // parameters that one parameter depends on

	defaultRetries = 2
	endless        = "none"
)

// checkBlock refuses what no server would accept.
func (r *templateReader) checkBlock(t *Template, b templateBlock) {
	here := func(name string) hcl.Range { return attributeRange(b.Body, name) }
	if _, _, err := addr.ParseTemplate(t.Name); err != nil {
		r.errs = append(r.errs, placeError("", b.Body.MissingItemRange(), err.Error()))
	}
	for _, f := range []struct {
		name, text string
		limit      int
	}{{"title", t.Title, maxTitle}, {"description", t.Description, maxDescription}, {"category", t.Category, maxTitle}, {"icon", t.Icon, maxTitle}} {
		if problem := textProblem(f.text, f.limit, f.name == "description"); problem != "" {
			r.failAt(here(f.name), "%s %s", f.name, problem)
		}
	}
	if !simpleName(t.Icon, "-") {
		r.failAt(here("icon"), "icon %q: only a-z, 0-9 and - are allowed", t.Icon)
	}
	if t.Category != "" && (path.Clean(t.Category) != t.Category || !simpleName(t.Category, "-_/") || t.Category[0] == '/') {
		r.failAt(here("category"), "category %q: must be names of a-z, 0-9 and -, separated by /", t.Category)
	}
	r.checkRun(t, b)
	r.checkOwner(t, here)
	r.checkRange(here("per_owner"), "per_owner", t.PerOwner, maxCount)
	r.checkRange(here("max"), "max", t.Max, maxCount)
	r.oneOf(here("approval"), "approval", t.Approval, ApprovalNone, ApprovalRequest, ApprovalPlan)
	r.oneOf(here("update"), "update", t.Update, updateManual, updateAuto)
	r.checkRange(here("retries"), "retries", t.Retries, MaxRetries)
	if t.Timeout < time.Minute || t.Timeout > MaxTimeout {
		r.failAt(here("timeout"), "timeout must be between 1m and %dh", MaxTimeout/time.Hour)
	}
	if len(t.Notices) > MaxNotices {
		r.failAt(here("notices"), "at most %d notices", MaxNotices)
	}
	r.checkNames(here("outputs"), "outputs", t.Outputs, hclsyntax.ValidIdentifier)
	r.checkNames(here("credentials"), "credentials", t.Credentials, func(s string) bool { return s != "" && simpleName(s, "-_") })
	for _, name := range t.Credentials {
		if r.known.Credentials != nil && !slices.Contains(r.known.Credentials, name) {
			r.failAt(here("credentials"), "unknown credential %q", name)
		}
	}
	r.checkPool(t, b)
	r.checkRest(t, b)
	r.checkParameters(t, b.Parameters)
	r.checkSchedule(t, b.Schedule)
}

func (r *templateReader) checkRun(t *Template, b templateBlock) {
	executors := r.known.Executors
	if executors == nil {
		executors = []string{ExecutorLocal}
	}
	at := attributeRange(b.Body, "executor")
	switch helm := t.Executor == ExecutorHelm; {
	case !slices.Contains(executors, t.Executor):
		r.oneOf(at, "executor", t.Executor, executors...)
	case helm && (b.Chart == nil || b.Module != nil):
		r.failAt(at, "executor %s installs a chart: set chart, and remove the module block", ExecutorHelm)
	case helm:
		r.checkChart(t, b)
	case b.Chart != nil:
		r.failAt(b.Chart.Range, "executor %s runs a module: charts are for %s, which okara-operator has", t.Executor, ExecutorHelm)
	case b.Module == nil:
		r.failAt(b.Body.MissingItemRange(), "a module block is required: it specifies what is run")
	case b.RequireLock && t.Executor != ExecutorLocal:
		r.failAt(attributeRange(b.Body, "require_module_lock"), "require_module_lock: the executor %s does not read the module lock file", t.Executor)
	default:
		r.checkModule(t, *b.Module)
	}
}

// checkChart refuses what only modules have; its executor checks the block chart.
func (r *templateReader) checkChart(t *Template, b templateBlock) {
	if !bytes.HasPrefix(t.Chart, []byte("{")) {
		r.failAt(b.Chart.Range, "chart must be an object that specifies where the chart is")
	}
	for _, f := range []struct {
		name, why string
		wrong     bool
	}{
		{"outputs", "not supported by charts: use connection to say how it is reached", len(t.Outputs) > 0},
		{"approval", "a chart has no plan to approve: use none or request", t.Approval == ApprovalPlan},
		{"update", "a chart has no plan that shows what an update destroys: must be manual", t.Update == updateAuto},
	} {
		if f.wrong {
			r.failAt(attributeRange(b.Body, f.name), "%s: %s", f.name, f.why)
		}
	}
}

func (r *templateReader) checkModule(t *Template, b moduleBlock) {
	if _, err := addr.ParseModule(t.Module.Address); err != nil {
		r.failAt(attributeRange(b.Body, "address"), "%v", err)
	}
	if !t.Module.Pinned() {
		if _, err := addr.ParseConstraint(t.Module.Version); err != nil {
			r.failAt(attributeRange(b.Body, "version"), "%v; version must be a constraint, a version or sha256: and 64 digits", err)
		}
	}
	if p := t.Module.Path; p != "" && (!cleanPath(p) || len(p) > 200) {
		r.failAt(attributeRange(b.Body, "path"), "path %q must be a directory in the module, such as modules/small", p)
	}
}

func cleanPath(p string) bool {
	inside := !strings.HasPrefix(p, "/") && p != "." && p != ".." && !strings.HasPrefix(p, "../")
	plain := !strings.ContainsFunc(p, unicode.IsControl) && !strings.Contains(p, `\`)
	return path.Clean(p) == p && inside && plain
}

func (r *templateReader) checkOwner(t *Template, here func(string) hcl.Range) {
	claim, ok := strings.CutPrefix(t.Owner, OwnerClaim+":")
	named := ok && claim != "" && textProblem(claim, maxTitle, false) == ""
	if t.Owner != OwnerUser && t.Owner != OwnerGroup && !named {
		r.failAt(here("owner"), "owner %q must be user, group or claim:NAME", t.Owner)
	}
	if len(t.Groups) > 0 && t.Owner != OwnerGroup {
		r.failAt(here("groups"), `groups requires owner = "group"`)
	}
	r.checkNames(here("groups"), "groups", t.Groups, func(s string) bool { return s != "" && textProblem(s, 200, false) == "" })
}

func (r *templateReader) checkPool(t *Template, b templateBlock) {
	p := t.Pool
	if p == nil {
		return
	}
	here := func(name string) hcl.Range { return attributeRange(b.Pool.Body, name) }
	r.checkRange(here("size"), "pool: size", p.Size, maxCount)
	r.checkRange(here("max"), "pool: max", p.Max, maxCount)
	r.oneOf(here("when_empty"), "when_empty", p.WhenEmpty, poolCreate, PoolRefuse)
	switch {
	case p.Max > 0 && p.Max < p.Size:
		r.failAt(here("max"), "pool: max %d is less than size %d", p.Max, p.Size)
	case t.Max > 0 && t.Max < p.Size:
		r.failAt(here("size"), "pool: size %d is more than max %d of the template", p.Size, t.Max)
	}
	if len(t.Parameters) > 0 {
		r.failAt(b.Parameters[0].Body.MissingItemRange(), "a pool cannot be combined with parameters: its members are created in advance")
	}
	if t.Approval != ApprovalNone {
		r.failAt(attributeRange(b.Body, "approval"), "a pool cannot be combined with approval: a claim would bypass it")
	}
}

func (r *templateReader) checkRest(t *Template, b templateBlock) {
	if t.Drift != nil && t.Drift.Every > 0 && t.Drift.Every < MinTTL {
		r.failAt(attributeRange(b.Drift.Body, "every"), "drift: every must be at least %dm", MinTTL/time.Minute)
	}
	if c := t.Cost; c != nil {
		if c.Hourly < 0 || math.IsNaN(c.Hourly) || math.IsInf(c.Hourly, 0) || c.Hourly > 1e6 {
			r.failAt(attributeRange(b.Cost.Body, "hourly"), "cost: hourly must be an amount of money")
		}
		if len(c.Currency) != 3 || strings.Trim(c.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			r.failAt(attributeRange(b.Cost.Body, "currency"), "cost: currency %q is not a code such as EUR", c.Currency)
		}
	}
	c := t.Connection
	if c == nil {
		return
	}
	r.oneOf(attributeRange(b.Connection.Body, "type"), "connection: type", c.Type, ConnectionWeb, ConnectionInstructions)
	switch {
	case c.Type == ConnectionWeb && c.URL == "":
		r.failAt(b.Connection.Body.MissingItemRange(), "connection: type web needs a url")
	case c.Type == ConnectionInstructions && c.Message == "":
		r.failAt(b.Connection.Body.MissingItemRange(), "connection: type instructions needs a message")
	}
}

func (r *templateReader) checkParameters(t *Template, blocks []parameter) {
	if len(t.Parameters) > maxList {
		r.failAt(blocks[maxList].Body.MissingItemRange(), "at most %d parameters", maxList)
		return
	}
	seen := map[string]bool{}
	for i, p := range t.Parameters {
		body := blocks[i].Body
		if !hclsyntax.ValidIdentifier(p.Name) || len(p.Name) > maxTitle {
			r.failAt(body.MissingItemRange(), "parameter %q: not a valid input name", p.Name)
		}
		if seen[p.Name] {
			r.failAt(body.MissingItemRange(), "parameter %s appears twice", p.Name)
		}
		seen[p.Name] = true
		for _, f := range []struct {
			name, text string
			limit      int
		}{{"title", p.Title, maxTitle}, {"help", p.Help, maxDescription}, {"pattern", p.Pattern, maxPattern}} {
			if problem := textProblem(f.text, f.limit, f.name == "help"); problem != "" {
				r.failAt(attributeRange(body, f.name), "parameter %s: %s %s", p.Name, f.name, problem)
			}
		}
		if _, err := regexp.Compile(p.Pattern); err != nil {
			r.failAt(attributeRange(body, "pattern"), "parameter %s: pattern: %v", p.Name, err)
		}
		if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum {
			r.failAt(attributeRange(body, "minimum"), "parameter %s: minimum %v is more than maximum %v", p.Name, *p.Minimum, *p.Maximum)
		}
		if len(p.Enum) > maxList {
			r.failAt(attributeRange(body, "enum"), "parameter %s: at most %d values", p.Name, maxList)
		}
		r.checkWhen(t.Parameters[:i], p, attributeRange(body, "when"))
	}
}

// checkWhen requires that a condition's parameters stand before p, and that p has update = true if
// one of them has: what is not asked for falls back to its default.
func (r *templateReader) checkWhen(before []Parameter, p Parameter, at hcl.Range) {
	if len(p.When) > maxWhen {
		r.failAt(at, "parameter %s: when: at most %d parameters", p.Name, maxWhen)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.When)) {
		i := slices.IndexFunc(before, func(p Parameter) bool { return p.Name == name })
		switch {
		case i < 0:
			r.failAt(at, "parameter %s: when: parameter %.100q is not defined before it", p.Name, name)
		case before[i].Update && !p.Update:
			r.failAt(at, "parameter %s: when: %s has update = true, which is required here too", p.Name, name)
		}
		if len(p.When[name]) > maxList {
			r.failAt(at, "parameter %s: when: at most %d values", p.Name, maxList)
		}
		for _, value := range p.When[name] {
			if !bytes.ContainsAny(value[:min(1, len(value))], `"-0123456789tf`) {
				r.failAt(at, "parameter %s: when: a value must be a string, a number, true or false", p.Name)
			}
		}
	}
}

func (r *templateReader) oneOf(at hcl.Range, name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		r.failAt(at, "%s %q must be %s", name, value, strings.Join(allowed, " or "))
	}
}

func (r *templateReader) checkRange(at hcl.Range, name string, n, limit int) {
	if n < 0 || n > limit {
		r.failAt(at, "%s %d must be between 0 and %d", name, n, limit)
	}
}

func (r *templateReader) checkNames(at hcl.Range, name string, list []string, valid func(string) bool) {
	if len(list) > maxList {
		r.failAt(at, "%s: at most %d names", name, maxList)
	}
	for i, s := range list {
		if !valid(s) || len(s) > 200 {
			r.failAt(at, "%s: %.40q is not a name", name, s)
		}
		if slices.Contains(list[:i], s) {
			r.failAt(at, "%s: %q appears twice", name, s)
		}
	}
}

// textProblem returns what is wrong with a displayed text; "" if nothing is.
func textProblem(s string, limit int, lines bool) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case utf8.RuneCountInString(s) > limit:
		return "is too long"
	case strings.ContainsFunc(s, func(c rune) bool { return text.Hidden(c) && (!lines || c != '\n' && c != '\t') }):
		return "has a control character"
	}
	return ""
}

// simpleName reports whether s has only lower-case letters, digits and those of more.
func simpleName(s, more string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789"+more) == ""
}

// mayLink reports whether a link may fill in a parameter: not one named like a credential.
func mayLink(name string) bool {
	name = strings.ToLower(name)
	return !slices.ContainsFunc([]string{"key", "password", "token", "user_data"}, func(s string) bool { return strings.Contains(name, s) })
}

// checkURLTemplate checks the address of a connection, before anything is filled in,
// against the rules of checkURL and renderURL.
func checkURLTemplate(tree hclsyntax.Expression) error {
	const some = "1" // a sample value that can be part of a name, a port or a path
	parts := urlParts(tree)
	var before strings.Builder
	for i, part := range parts {
		literal, ok := literalText(part)
		switch {
		case ok:
			before.WriteString(literal)
		case !isTrusted(part):
			if !hasHost(before.String()) {
				return errors.New("only id, config and outputs may appear before the path")
			}
			before.WriteString(some)
		case i > 0:
			before.WriteString(some)
		default:
			next := ""
			if len(parts) > 1 {
				next, _ = literalText(parts[1])
			}
			before.WriteString("https")
			if !strings.HasPrefix(next, "://") {
				before.WriteString("://" + some)
			}
		}
	}
	if strings.Contains(before.String(), "["+some+"]") {
		return nil // an IPv6 address, which is checked once it is filled in
	}
	return checkURL(before.String())
}

func literalText(part hclsyntax.Expression) (string, bool) {
	l, ok := part.(*hclsyntax.LiteralValueExpr)
	if !ok {
		return "", false
	}
	value, err := asText(l.Val)
	return value, err == nil
}
