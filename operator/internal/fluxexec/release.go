// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Release describes a release of a chart.
type Release struct {
	Namespace string            `json:"namespace"` // of the objects and of the installed resources
	Name      string            `json:"name"`      // of each object, and of the release
	Labels    map[string]string `json:"labels,omitempty"`
	UID       types.UID         `json:"uid,omitempty"`     // as in [Spec]
	Attempt   string            `json:"attempt,omitempty"` // as in [Spec]

	Chart Chart `json:"chart"`
	// ChartNamespace holds the source of the chart and the Secret for fetching it, which
	// the installing account cannot read there. "" means Namespace.
	ChartNamespace string `json:"chartNamespace,omitempty"`
	// Values is a JSON object. It overrides the values of ValuesFrom.
	Values     json.RawMessage `json:"values,omitempty"`
	ValuesFrom []SecretKey     `json:"valuesFrom,omitempty"`

	// ServiceAccountName is the account that installs. Its rights bound what the chart
	// can do (H1).
	ServiceAccountName string `json:"serviceAccountName"`

	Interval metav1.Duration `json:"interval,omitzero"` // between two checks; 0: 10m
	Timeout  metav1.Duration `json:"timeout,omitzero"`  // of each action; 0: 5m
	Drift    Drift           `json:"drift,omitempty"`   // "": Repair. With Report, helm-controller reports drift as events
	Suspend  bool            `json:"suspend,omitempty"` // stops the next action
	// Keep leaves the installed resources in place when the release is deleted.
	Keep bool `json:"keep,omitempty"`
}

// Chart has exactly one of three sources.
type Chart struct {
	OCI  *OCI  `json:"oci,omitempty"`
	HTTP *HTTP `json:"http,omitempty"`
	Git  *Git  `json:"git,omitempty"`
}

// OCI is a chart in a registry, as helm push stores it, identified by its digest or as
// the newest version in a range.
type OCI struct {
	Repository string `json:"repository"` // HOST[:PORT]/NAME
	Digest     string `json:"digest,omitempty"`
	Semver     string `json:"semver,omitempty"`
	PullSecret string `json:"pullSecret,omitempty"` // of type kubernetes.io/dockerconfigjson
	PlainHTTP  bool   `json:"plainHTTP,omitempty"`
}

// HTTP is a chart in a repository with an index.
type HTTP struct {
	URL     string `json:"url"`
	Chart   string `json:"chart"`
	Version string `json:"version,omitempty"` // or a constraint; "": the newest
	Secret  string `json:"secret,omitempty"`  // username and password
}

// Git is a chart in a folder of a Git repository. At most one of Branch, Tag, Semver and
// Commit is set. The default is the branch main.
type Git struct {
	URL    string `json:"url"`  // https or ssh
	Path   string `json:"path"` // of the folder
	Branch string `json:"branch,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Semver string `json:"semver,omitempty"`
	Commit string `json:"commit,omitempty"`
	Secret string `json:"secret,omitempty"` // username and password, or identity and known_hosts
}

// check returns the first mistake.
func (r *Release) check() error {
	if err := checkObjects(r.Namespace, r.Name, r.Drift); err != nil {
		return err
	}
	if len(validation.IsDNS1123Subdomain(r.ServiceAccountName)) > 0 {
		return fieldf("serviceAccountName", "%q is not a service account: helm-controller would use its own, unlimited rights", r.ServiceAccountName)
	}
	var values map[string]json.RawMessage
	if len(r.Values) > 0 && json.Unmarshal(r.Values, &values) != nil {
		return fieldf("values", "they are not an object")
	}
	return r.Chart.check()
}

func (c Chart) check() error {
	switch {
	case c.OCI != nil && c.HTTP == nil && c.Git == nil:
		return c.OCI.check()
	case c.HTTP != nil && c.OCI == nil && c.Git == nil:
		if !isURL(c.HTTP.URL, "https", "http") {
			return fieldf("chart.http.url", "%q is no https://HOST/PATH", c.HTTP.URL)
		}
		if c.HTTP.Chart == "" || strings.ContainsAny(c.HTTP.Chart, "/\\") {
			return fieldf("chart.http.chart", "%q is not a valid chart name", c.HTTP.Chart)
		}
		return nil
	case c.Git != nil && c.OCI == nil && c.HTTP == nil:
		return c.Git.check()
	}
	return fieldf("chart", "exactly one of oci, http and git is required")
}

func (o *OCI) check() error {
	host, name, err := addr.SplitRegistry(o.Repository)
	if err == nil {
		err = addr.CheckRepository(host, name)
	}
	if err != nil {
		return fieldf("chart.oci.repository", "%v", err)
	}
	if set(o.Digest, o.Semver) != 1 {
		return fieldf("chart.oci", "exactly one of digest and semver is required")
	}
	if o.Digest != "" {
		if _, err := digest.Parse(o.Digest); err != nil {
			return fieldf("chart.oci.digest", "%q is not a digest", o.Digest)
		}
	}
	return nil
}

func (g *Git) check() error {
	if !isURL(g.URL, "https", "http", "ssh") {
		return fieldf("chart.git.url", "%q is no https://HOST/PATH and no ssh://USER@HOST/PATH", g.URL)
	}
	if g.Path != "" && !staysInside(g.Path) {
		return fieldf("chart.git.path", "%q is outside the repository", g.Path)
	}
	if g.Commit != "" && (len(g.Commit) != 40 || strings.Trim(g.Commit, "0123456789abcdef") != "") {
		return fieldf("chart.git.commit", "%q is not a full commit hash", g.Commit)
	}
	if set(g.Branch, g.Tag, g.Semver, g.Commit) > 1 {
		return fieldf("chart.git", "at most one of branch, tag, semver and commit is allowed")
	}
	return nil
}

func isURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme) {
		return false
	}
	_, secret := u.User.Password()
	return !secret && (u.User == nil || u.Scheme == "ssh")
}

// set counts the arguments that are not "".
func set(names ...string) int {
	n := 0
	for _, name := range names {
		if name != "" {
			n++
		}
	}
	return n
}
