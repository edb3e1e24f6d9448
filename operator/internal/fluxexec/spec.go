// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seed-141914ff/okara/internal/addr"
)

const (
	// MaxModule is the largest archive of a module, in bytes, that tofu-controller's
	// runner takes as it is installed.
	MaxModule = 4 << 20
	// maxName leaves room for what controllers put before and behind a name.
	maxName = 53
)

// Drift says what becomes of resources that somebody changed.
type Drift string

// Ways with drift.
const (
	DriftRepair Drift = "Repair" // the next run changes them back; what "" is
	DriftOff    Drift = "Off"    // nobody looks
)

// Spec is a run of a module.
type Spec struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"` // of each object
	Labels    map[string]string `json:"labels,omitempty"`

	Module             Module                     `json:"module"`
	ServiceAccountName string                     `json:"serviceAccountName,omitempty"` // of the runner; "": tf-runner
	Variables          map[string]json.RawMessage `json:"variables,omitempty"`
	VariablesFrom      []VariablesFrom            `json:"variablesFrom,omitempty"` // they win
	State              State                      `json:"state"`
	// CLIConfigSecret names a Secret with the one key okara.tfrc, a CLI configuration.
	CLIConfigSecret string `json:"cliConfigSecret,omitempty"`

	Interval metav1.Duration `json:"interval,omitzero"` // between two runs; 0: 10m
	Drift    Drift           `json:"drift,omitempty"`
	Retries  int             `json:"retries,omitempty"` // of a run that failed, until something changes; 0: no bound
	// Keep leaves the resources alone when the run is deleted.
	Keep bool `json:"keep,omitempty"`

	// Outputs are the ones that OutputsSecret gets; without any it gets all.
	Outputs       []string `json:"outputs,omitempty"`
	OutputsSecret string   `json:"outputsSecret,omitempty"` // "": outputs are written nowhere
}

// Module is a version of a module in a registry.
type Module struct {
	Repository string `json:"repository"`           // HOST[:PORT]/NAME
	Digest     string `json:"digest"`               // sha256:…, of the manifest
	Size       int64  `json:"size,omitempty"`       // of the archive, in bytes; 0: not known
	Path       string `json:"path,omitempty"`       // of the root module inside
	PullSecret string `json:"pullSecret,omitempty"` // of type kubernetes.io/dockerconfigjson
	CASecret   string `json:"caSecret,omitempty"`   // its key ca.crt has the registry's CA
	PlainHTTP  bool   `json:"plainHTTP,omitempty"`
}

// VariablesFrom are values that a Secret has.
type VariablesFrom struct {
	Secret string            `json:"secret"`
	Keys   map[string]string `json:"keys"` // variable: key
}

// State is where okara serve keeps the state.
type State struct {
	Address     string  `json:"address"`               // URL/state/NAME/WORKSPACE
	TokenSecret string  `json:"tokenSecret,omitempty"` // its key token has a token with the right to write it
	CA          *CAFrom `json:"ca,omitempty"`
}

// CAFrom is a key of a ConfigMap with certificates, in PEM.
type CAFrom struct {
	ConfigMap string `json:"configMap"`
	Key       string `json:"key"`
}

// FieldError is a mistake in a run.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func fieldf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// variable is a name that a module can give an input.
var variable = regexp.MustCompile(`^[\pL_][\pL\pN_-]*$`)

// check finds the first mistake.
func (s *Spec) check() error {
	if len(s.Name) > maxName || len(validation.IsDNS1035Label(s.Name)) > 0 {
		return fieldf("name", "%q has to be a label of DNS that begins with a letter, of at most %d characters", s.Name, maxName)
	}
	if len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		return fieldf("namespace", "%q is no name of a namespace", s.Namespace)
	}
	if err := s.Module.check(); err != nil {
		return err
	}
	if err := s.State.check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		if !variable.MatchString(name) {
			return fieldf("variables", "%q is no name of a variable", name)
		}
	}
	if s.Interval.Duration < 0 || s.Retries < 0 {
		return fieldf("interval, retries", "they cannot be negative")
	}
	if s.Drift != "" && s.Drift != DriftRepair && s.Drift != DriftOff {
		return fieldf("drift", "%q is neither %s nor %s", s.Drift, DriftRepair, DriftOff)
	}
	if len(s.Outputs) > 0 && s.OutputsSecret == "" {
		return fieldf("outputs", "name a Secret for them in outputsSecret")
	}
	return s.checkNames()
}

// checkNames looks at the names of other objects.
func (s *Spec) checkNames() error {
	names := []struct{ field, name string }{
		{"serviceAccountName", s.ServiceAccountName},
		{"cliConfigSecret", s.CLIConfigSecret},
		{"outputsSecret", s.OutputsSecret},
		{"module.pullSecret", s.Module.PullSecret},
		{"module.caSecret", s.Module.CASecret},
		{"state.tokenSecret", s.State.TokenSecret},
	}
	for i, from := range s.VariablesFrom {
		field := fmt.Sprintf("variablesFrom[%d]", i)
		if from.Secret == "" || len(from.Keys) == 0 {
			return fieldf(field, "a Secret, and which variable has which of its keys")
		}
		names = append(names, struct{ field, name string }{field + ".secret", from.Secret})
		for _, name := range slices.Sorted(maps.Keys(from.Keys)) {
			if !variable.MatchString(name) {
				return fieldf(field+".keys", "%q is no name of a variable", name)
			}
			if len(validation.IsConfigMapKey(from.Keys[name])) > 0 {
				return fieldf(field+".keys", "%q is no key of a Secret", from.Keys[name])
			}
		}
	}
	if ca := s.State.CA; ca != nil {
		if ca.ConfigMap == "" || len(validation.IsConfigMapKey(ca.Key)) > 0 {
			return fieldf("state.ca", "a ConfigMap, and one of its keys")
		}
		names = append(names, struct{ field, name string }{"state.ca.configMap", ca.ConfigMap})
	}
	for _, n := range names {
		if n.name != "" && len(validation.IsDNS1123Subdomain(n.name)) > 0 {
			return fieldf(n.field, "%q is no name of an object", n.name)
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
		return fieldf("module.digest", "%q is no digest: okara publish, okara list and okara show print that of a version", m.Digest)
	}
	if m.Size > MaxModule {
		return fieldf("module.size", "the module is %.1f MiB, tofu-controller's runner takes %d MiB: leave files out with .tfignore", float64(m.Size)/(1<<20), MaxModule>>20)
	}
	if m.Path != "" && (path.IsAbs(m.Path) || m.Path != path.Clean(m.Path) || m.Path == ".." || strings.HasPrefix(m.Path, "../")) {
		return fieldf("module.path", "%q does not stay inside of the module", m.Path)
	}
	return nil
}

// check wants an address that can be written into HCL as it is.
func (s State) check() error {
	u, err := url.Parse(s.Address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery+u.Fragment != "" || u.String() != s.Address ||
		!strings.Contains(u.Path, "/state/") || strings.ContainsAny(s.Address, "\"\\${}") {
		return fieldf("state.address", "%q is not https://HOST/state/NAME/WORKSPACE", s.Address)
	}
	return nil
}
