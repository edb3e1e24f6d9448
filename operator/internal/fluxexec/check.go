// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seed-141914ff/okara/internal/addr"
)

// FieldError is a mistake in a run.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func fieldf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// variable matches the names that a module can give an input.
var variable = regexp.MustCompile(`^[\pL_][\pL\pN_-]*$`)

func (s *Spec) check() error {
	if err := checkObjects(s.Namespace, s.Name, s.Drift); err != nil {
		return err
	}
	for _, check := range []func() error{s.Module.check, s.State.check, s.checkTimes, s.checkWays, s.checkVariables, s.checkRunner, s.checkNames} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func checkObjects(namespace, name string, drift Drift) error {
	if len(name) > maxName || len(validation.IsDNS1035Label(name)) > 0 {
		return fieldf("name", "%q must be a DNS label that starts with a letter, of at most %d characters", name, maxName)
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return fieldf("namespace", "%q is not a valid namespace name", namespace)
	}
	if !slices.Contains([]Drift{"", DriftRepair, DriftReport, DriftIgnore}, drift) {
		return fieldf("drift", "%q must be %s, %s or %s", drift, DriftRepair, DriftReport, DriftIgnore)
	}
	return nil
}

func (s *Spec) checkTimes() error {
	if s.Interval.Duration < 0 || s.Retries < 0 {
		return fieldf("interval, retries", "must not be negative")
	}
	if s.RetryInterval.Duration < 0 || s.LockTimeout.Duration < 0 {
		return fieldf("retryInterval, lockTimeout", "must not be negative")
	}
	return nil
}

// checkWays checks the approval mode, the outputs, the gate and the health checks.
func (s *Spec) checkWays() error {
	if !slices.Contains([]Approval{"", ApprovalAuto, ApprovalManual, ApprovalNone}, s.Approval) {
		return fieldf("approval", "%q must be %s, %s or %s", s.Approval, ApprovalAuto, ApprovalManual, ApprovalNone)
	}
	if s.Approval == ApprovalNone && s.Drift == DriftIgnore {
		return fieldf("drift", "a run that applies nothing must detect drift, or it would do nothing")
	}
	if len(s.Outputs) > 0 && s.OutputsSecret == "" {
		return fieldf("outputs", "outputs require a Secret: set outputsSecret")
	}
	if s.Gate != "" {
		u, err := url.Parse(s.Gate)
		if err != nil || !isWeb(u) || u.Hostname() == "" || u.User != nil {
			return fieldf("gate", "%q is not https://HOST/PATH", s.Gate)
		}
	}
	for i, h := range s.HealthChecks {
		target := h.Type == "tcp" && h.Address != "" || h.Type == "http" && h.URL != ""
		if h.Name == "" || !target || h.Timeout.Duration < 0 {
			return fieldf(fmt.Sprintf("healthChecks[%d]", i), "requires a name, and type tcp with an address or http with a url")
		}
	}
	return nil
}

func (s *Spec) checkVariables() error {
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		if !variable.MatchString(name) {
			return fieldf("variables", "%q is not a valid variable name", name)
		}
	}
	for i, from := range s.VariablesFrom {
		field := fmt.Sprintf("variablesFrom[%d]", i)
		if (from.Secret == "") == (from.ConfigMap == "") || len(from.Keys) == 0 {
			return fieldf(field, "requires a Secret or a ConfigMap, and the key of each variable")
		}
		for _, name := range slices.Sorted(maps.Keys(from.Keys)) {
			if !variable.MatchString(name) {
				return fieldf(field+".keys", "%q is not a valid variable name", name)
			}
			if len(validation.IsConfigMapKey(from.Keys[name])) > 0 {
				return fieldf(field+".keys", "%q is not a valid key of a Secret", from.Keys[name])
			}
		}
	}
	return nil
}

// own matches variables that other fields set, or that spoil output for tofu-controller.
var own = regexp.MustCompile(`^(TF_HTTP_.*|TF_ENCRYPTION|TF_CLI_CONFIG_FILE|TF_CLI_ARGS.*|TF_LOG.*)$`)

func (s *Spec) checkRunner() error {
	if s.Runner == nil {
		return nil
	}
	for i, env := range s.Runner.Env {
		field := fmt.Sprintf("runner.env[%d].name", i)
		if len(validation.IsEnvVarName(env.Name)) > 0 {
			return fieldf(field, "%q is not a valid environment variable name", env.Name)
		}
		if own.MatchString(env.Name) {
			return fieldf(field, "%s is reserved", env.Name)
		}
	}
	return nil
}

func (s *Spec) checkNames() error {
	names := []struct{ field, name string }{
		{"serviceAccountName", s.ServiceAccountName},
		{"cliConfigSecret", s.CLIConfigSecret},
		{"outputsSecret", s.OutputsSecret},
		{"module.pullSecret", s.Module.PullSecret},
		{"module.caSecret", s.Module.CASecret},
		{"module.serviceAccountName", s.Module.ServiceAccountName},
		{"state.tokenSecret", s.State.TokenSecret},
	}
	for i, from := range s.VariablesFrom {
		field := fmt.Sprintf("variablesFrom[%d].", i)
		names = append(names, struct{ field, name string }{field + "secret", from.Secret}, struct{ field, name string }{field + "configMap", from.ConfigMap})
	}
	if v := s.Module.Verify; v != nil {
		names = append(names, struct{ field, name string }{"module.verify.secret", v.Secret})
	}
	if ca := s.State.CA; ca != nil {
		if ca.ConfigMap == "" || len(validation.IsConfigMapKey(ca.Key)) > 0 {
			return fieldf("state.ca", "requires a ConfigMap and one of its keys")
		}
		names = append(names, struct{ field, name string }{"state.ca.configMap", ca.ConfigMap})
	}
	if key := s.Encryption; key != nil {
		if key.Secret == "" || len(validation.IsConfigMapKey(key.Key)) > 0 {
			return fieldf("encryption", "requires a Secret and one of its keys")
		}
		names = append(names, struct{ field, name string }{"encryption.secret", key.Secret})
	}
	for _, n := range names {
		if n.name != "" && len(validation.IsDNS1123Subdomain(n.name)) > 0 {
			return fieldf(n.field, "%q is not a valid object name", n.name)
		}
	}
	return nil
}

func (m Module) check() error {
	host, name, err := addr.SplitRegistry(m.Repository)
	if err == nil {
		err = addr.CheckRepository(host, name)
	}
	if err != nil {
		return fieldf("module.repository", "%v", err)
	}
	if d, err := digest.Parse(m.Digest); err != nil || d.Algorithm() != digest.SHA256 {
		return fieldf("module.digest", "%q is not a digest: okara publish, okara list and okara show print that of a version", m.Digest)
	}
	if m.Size > MaxModule {
		return fieldf("module.size", "the module is %.1f MiB, but tofu-controller's runner accepts at most %d MiB: exclude files with .tfignore", float64(m.Size)/(1<<20), MaxModule>>20)
	}
	if m.Path != "" && !staysInside(m.Path) {
		return fieldf("module.path", "%q is outside the module", m.Path)
	}
	if !slices.Contains([]string{"", "generic", "aws", "azure", "gcp"}, m.Provider) {
		return fieldf("module.provider", "%q must be aws, azure or gcp", m.Provider)
	}
	return nil
}

func isWeb(u *url.URL) bool { return u.Scheme == "https" || u.Scheme == "http" }

// staysInside reports whether a clean path stays below the folder that it is relative to.
func staysInside(p string) bool {
	return !path.IsAbs(p) && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../")
}

// check requires an address that can be written into HCL without escaping.
func (s State) check() error {
	u, err := url.Parse(s.Address)
	if err != nil || !isWeb(u) || u.Host == "" || u.User != nil {
		return fieldf("state.address", "%q is not https://HOST/state/NAME/WORKSPACE", s.Address)
	}
	canonical := u.RawQuery+u.Fragment == "" && u.String() == s.Address
	if !canonical || !strings.Contains(u.Path, "/state/") || strings.ContainsAny(s.Address, "\"\\${}") {
		return fieldf("state.address", "%q is not https://HOST/state/NAME/WORKSPACE", s.Address)
	}
	return nil
}
