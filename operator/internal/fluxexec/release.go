// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Release describes a release of a chart.
type Release struct {
	Namespace string            `json:"namespace"` // of the objects and of the installed resources
	Name      string            `json:"name"`      // of each object, and of the release
	Labels    map[string]string `json:"labels,omitempty"`
	UID       types.UID         `json:"uid,omitempty"`     // as in [Spec]
	Attempt   string            `json:"attempt,omitempty"` // as in [Spec]

	Chart     v1alpha1.Chart `json:"chart"`
	PlainHTTP bool           `json:"plainHTTP,omitempty"` // to the registry of the chart
	// ChartNamespace has the chart's source and Secret, out of the account's sight. "": Namespace.
	ChartNamespace string `json:"chartNamespace,omitempty"`
	// Values is a JSON object. It overrides the values of ValuesFrom.
	Values     json.RawMessage `json:"values,omitempty"`
	ValuesFrom []SecretKey     `json:"valuesFrom,omitempty"`

	// ServiceAccountName installs; its rights bound the chart (H1).
	ServiceAccountName string `json:"serviceAccountName"`

	Interval metav1.Duration `json:"interval,omitzero"` // between two checks; 0: 10m
	Timeout  metav1.Duration `json:"timeout,omitzero"`  // of each action; 0: 5m
	Drift    Drift           `json:"drift,omitempty"`   // "": Repair. With Report, helm-controller reports drift as events
	Suspend  bool            `json:"suspend,omitempty"` // stops the next action
	// Keep leaves the installed resources in place when the release is deleted.
	Keep bool `json:"keep,omitempty"`
}

func (r *Release) check() error {
	if err := checkObjects(r.Namespace, r.Name, r.Drift); err != nil {
		return err
	}
	if len(validation.IsDNS1123Subdomain(r.ServiceAccountName)) > 0 {
		return fieldf("serviceAccountName", "%q is not a service account: helm-controller would use its own, unlimited rights", r.ServiceAccountName)
	}
	var values map[string]json.RawMessage
	if len(r.Values) > 0 && json.Unmarshal(r.Values, &values) != nil {
		return fieldf("values", "must be an object")
	}
	return r.checkChart()
}

// checkChart checks what the schema leaves open: no password in a URL, a folder inside.
func (r *Release) checkChart() error {
	switch c := r.Chart; {
	case c.OCI != nil:
		host, name, err := addr.SplitRegistry(strings.TrimPrefix(c.OCI.URL, ociScheme))
		if err := cmp.Or(err, addr.CheckRepository(host, name)); err != nil {
			return fieldf("chart.oci.url", "%v", err)
		}
	case c.Helm != nil && !isURL(c.Helm.URL, "https", "http"):
		return fieldf("chart.helm.url", "%q is not https://HOST/PATH", c.Helm.URL)
	case c.Helm != nil && (c.Helm.Name == "" || strings.ContainsAny(c.Helm.Name, "/\\")):
		return fieldf("chart.helm.name", "%q is not a valid chart name", c.Helm.Name)
	case c.Git != nil && !isURL(c.Git.URL, "https", "http", "ssh"):
		return fieldf("chart.git.url", "%q is neither https://HOST/PATH nor ssh://USER@HOST/PATH", c.Git.URL)
	case c.Git != nil && c.Git.Path != "" && !staysInside(c.Git.Path):
		return fieldf("chart.git.path", "%q is outside the repository", c.Git.Path)
	case c.Helm == nil && c.Git == nil:
		return fieldf("chart", "one of oci, helm and git is required")
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
