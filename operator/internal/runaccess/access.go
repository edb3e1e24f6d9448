// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/statebackend"
)

// Options configures where states are, and how runs reach them.
type Options struct {
	Client client.Client // reads the current objects, without a cache
	Issuer *Issuer
	// Stores returns a state's repository, the same each time, without keys.
	Stores func(name string) (*statebackend.Store, error)
	// States returns the names of all known states. nil means that none are known.
	States func(ctx context.Context) ([]string, error)

	FrontEnd  *url.URL          // address of okara serve for runs and the operator
	CA        []byte            // PEM of its authority; nil: a publicly trusted one
	Transport http.RoundTripper // to it; nil: http.DefaultTransport

	// PullSecret is for modules in other registries, copied only to a run's own namespace; zero:
	// none.
	PullSecret client.ObjectKey
}

// Access prepares runs. It is safe for concurrent use.
type Access struct {
	Where
	o    Options
	http *http.Client
}

// frontTimeout bounds a request to okara serve.
const frontTimeout = 30 * time.Second

// IsBase reports whether a URL is http or https, with a host and no user, query or fragment.
func IsBase(u *url.URL) bool {
	web := u.Scheme == "https" || u.Scheme == "http"
	return web && u.Host != "" && u.User == nil && u.RawQuery+u.Fragment == ""
}

// New returns an Access, or an error that names the invalid option. It makes no request.
func New(o Options) (*Access, error) {
	u := o.FrontEnd
	if u == nil || !IsBase(u) || strings.ContainsAny(u.String(), `"$%{}\`) {
		return nil, errors.New("okara serve: requires an https address, without a query")
	}
	if o.Client == nil || o.Issuer == nil || o.Stores == nil {
		return nil, errors.New("access of runs: a client, an issuer of tokens and the states are required")
	}
	at := *u
	at.Path = strings.TrimSuffix(at.Path, "/")
	where := Where{FrontEnd: &at, Cluster: o.Issuer.Cluster(), CA: len(o.CA) > 0, Pull: o.PullSecret.Name != ""}
	return &Access{where, o, &http.Client{Transport: o.Transport, Timeout: frontTimeout}}, nil
}

// Run is the run of an object. Namespace, UID, Workspace and Module are in its token.
type Run struct {
	Namespace    string    // of the object
	UID          types.UID // of the object
	Workspace    string    // of its state
	Module       string    // address of its module, if it has one
	RunNamespace string    // namespace of the objects that are created for the run
	Name         string    // of these objects: that of the Terraform
	Repository   string    // of the module, HOST[:PORT]/NAME
	Adopt        bool      // an administrator allowed it to adopt the existing workspace
}

func openListing(ctx context.Context, a *Access, namespace string) (*statebackend.Store, *statebackend.Listing, error) {
	s, err := a.o.Stores(a.StateName(namespace))
	if err != nil {
		return nil, nil, err
	}
	l, err := s.List(ctx)
	return s, l, err
}

func (a *Access) checkNames(r Run) error {
	if len(validation.IsDNS1123Label(r.RunNamespace)) > 0 || len(validation.IsDNS1035Label(r.Name)) > 0 {
		return fmt.Errorf("run %q in namespace %q: both must be DNS labels", r.Name, r.RunNamespace)
	}
	return nil
}

// Ready describes what was prepared.
type Ready struct {
	State           fluxexec.State
	CLIConfigSecret string
	PullSecret      string // "": the source is pulled without a Secret
	CASecret        string // authority of the source's registry; "": none is needed
	// Request changes with what was prepared: a failed run is repeated (T16).
	Request string
	Renew   time.Duration // the delay after which it has to be prepared again
}

// Into sets the prepared values in the run that Flux carries out.
func (r Ready) Into(s *fluxexec.Spec) {
	s.State = r.State
	s.CLIConfigSecret = r.CLIConfigSecret
	s.Module.PullSecret = r.PullSecret
	s.Module.CASecret = r.CASecret
	s.Request = r.Request
}

// Prepare makes or renews what a run needs, repeatably. Errors are [*StateExistsError],
// [*NotOwnerError], [*statebackend.LockedError], [*fluxobj.TakenError], and those of API server and
// registry.
func (a *Access) Prepare(ctx context.Context, r Run) (Ready, error) {
	if err := a.checkNames(r); err != nil {
		return Ready{}, err
	}
	token, left, before, err := a.readRunToken(ctx, r)
	if err != nil {
		return Ready{}, err
	}
	if left < RenewBelow {
		if err := a.claimState(ctx, r, before); err != nil {
			return Ready{}, err
		}
		if token, err = a.o.Issuer.Token(ctx, r); err != nil {
			return Ready{}, err
		}
		left = Lifetime
	}
	ready, err := a.writeObjects(ctx, r, token)
	ready.Renew = left - RenewBelow
	return ready, err
}

// readRunToken returns a run's token, and for how long; before: it ever had one.
func (a *Access) readRunToken(ctx context.Context, r Run) (token string, left time.Duration, before bool, err error) {
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.RunNamespace, Name: r.secret()}
	if err := a.o.Client.Get(ctx, key, s); err != nil {
		return "", 0, false, client.IgnoreNotFound(err)
	}
	if err := a.checkMine(s, r); err != nil {
		return "", 0, false, err
	}
	token = string(s.Data[keyToken])
	left, err = a.o.Issuer.Left(ctx, token, r)
	return token, left, true, err
}

// Names of the objects that are created for a run.
func (r Run) secret() string     { return r.Name + "-okara-run" }
func (r Run) pull() string       { return r.Name + "-okara-pull" }
func (r Run) configName() string { return r.Name + "-okara-cli" }
func (r Run) caBundle() string   { return r.Name + "-okara-ca" }

// Where configures how runs reach okara serve and their modules.
type Where struct {
	FrontEnd *url.URL // without a trailing slash
	Cluster  string   // prefix of the names of states
	CA       bool     // okara serve uses a private authority
	Pull     bool     // the operator has a pull Secret
}

// Names returns [Access.Prepare]'s result but for the cluster's. It is pure.
func (w Where) Names(r Run) Ready {
	ready := Ready{State: fluxexec.State{Address: w.Address(r), TokenSecret: r.secret()}, CLIConfigSecret: r.configName()}
	// Where tenants can read Secrets, the operator's must not be copied.
	if w.hasModule(r) || w.Pull && r.RunNamespace != r.Namespace {
		ready.PullSecret = r.pull()
	}
	if w.CA {
		ready.State.CA = &fluxexec.CAFrom{ConfigMap: r.caBundle(), Key: keyCA}
		if w.hasModule(r) {
			ready.CASecret = r.caBundle()
		}
	}
	return ready
}

func (w Where) hasModule(r Run) bool {
	host, _, _ := strings.Cut(r.Repository, "/")
	return host == w.FrontEnd.Host
}

// StateName returns the state of the objects of a namespace: CLUSTER.NAMESPACE.
func (w Where) StateName(namespace string) string { return w.Cluster + "." + namespace }

// Address returns the address of the state of a run.
func (w Where) Address(r Run) string {
	return w.FrontEnd.String() + "/state/" + w.StateName(r.Namespace) + "/" + r.Workspace
}
