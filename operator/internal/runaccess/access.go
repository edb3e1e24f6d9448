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

// Options say where states are, and how runs reach them.
type Options struct {
	Client client.Client // reads what is there now, not a cache
	Issuer *Issuer
	// Stores returns the repository of a state, where the records of its workspaces
	// are: the same store at each call. No key is needed.
	Stores func(name string) (*statebackend.Store, error)
	// States are the names of all states that one can know of; nil: of none.
	States func(ctx context.Context) ([]string, error)

	FrontEnd  *url.URL          // okara serve as runs and the operator reach it
	CA        []byte            // PEM of its authority; nil: one that everybody knows
	Transport http.RoundTripper // to it; nil: http.DefaultTransport

	// PullSecret of the operator is for modules that lie in a registry of their own.
	// It is copied to namespaces that are a run's alone; zero: there is none.
	PullSecret client.ObjectKey
}

// Access prepares runs. It is safe for concurrent use.
type Access struct {
	o    Options
	http *http.Client
}

// frontTimeout bounds a request to okara serve.
const frontTimeout = 30 * time.Second

// isBase reports whether a URL is http or https, with a host and no user, query or fragment.
func isBase(u *url.URL) bool {
	web := u.Scheme == "https" || u.Scheme == "http"
	return web && u.Host != "" && u.User == nil && u.RawQuery+u.Fragment == ""
}

// New returns what prepares runs, or an error that names the option at fault. It makes
// no request.
func New(o Options) (*Access, error) {
	u := o.FrontEnd
	if u == nil || !isBase(u) || strings.ContainsAny(u.String(), `"$%{}\`) {
		return nil, errors.New("okara serve: an https address is needed, without a query")
	}
	if o.Client == nil || o.Issuer == nil || o.Stores == nil {
		return nil, errors.New("access of runs: a client, an issuer of tokens and the states are needed")
	}
	at := *u
	at.Path = strings.TrimSuffix(at.Path, "/")
	o.FrontEnd = &at
	return &Access{o: o, http: &http.Client{Transport: o.Transport, Timeout: frontTimeout}}, nil
}

// Run is the run of an object. Of it a token says Namespace, UID, Workspace and Module.
type Run struct {
	Namespace    string    // of the object
	UID          types.UID // of the object
	Workspace    string    // of its state
	Module       string    // address of its module; "": it has none
	RunNamespace string    // namespace of what is made for the run
	Name         string    // of it: that of the Terraform
	Repository   string    // of the module, HOST[:PORT]/NAME
	Adopt        bool      // an administrator gave it the workspace that exists
}

// StateName is the state of the objects of a namespace: CLUSTER.NAMESPACE.
func (a *Access) StateName(namespace string) string { return a.where().stateName(namespace) }

// Address is where the state of a run is.
func (a *Access) Address(r Run) string { return a.where().address(r) }

func (a *Access) where() Where {
	return Where{FrontEnd: a.o.FrontEnd, Cluster: a.o.Issuer.Cluster(), CA: len(a.o.CA) > 0, Pull: a.o.PullSecret.Name != ""}
}

func (a *Access) check(r Run) error {
	if len(validation.IsDNS1123Label(r.RunNamespace)) > 0 || len(validation.IsDNS1035Label(r.Name)) > 0 {
		return fmt.Errorf("run %q in namespace %q: they have to be labels of DNS", r.Name, r.RunNamespace)
	}
	return nil
}

// Ready is what was prepared.
type Ready struct {
	State           fluxexec.State
	CLIConfigSecret string
	PullSecret      string // "": the source is pulled without
	CASecret        string // of the registry of the source; "": none is needed
	// Request changes with what was prepared: a run that failed without it is to be
	// made again at once (T16).
	Request string
	Renew   time.Duration // after which it has to be prepared again
}

// Into puts it into the run that Flux carries out.
func (r Ready) Into(s *fluxexec.Spec) {
	s.State = r.State
	s.CLIConfigSecret = r.CLIConfigSecret
	s.Module.PullSecret = r.PullSecret
	s.Module.CASecret = r.CASecret
	s.Request = r.Request
}

// Prepare makes all that a run needs, as far as it is not there and fresh. It may be
// repeated. Errors, besides those of the API server and the registry:
// [*StateExistsError], [*NotOwnerError], [*statebackend.LockedError] and
// [*fluxobj.TakenError].
func (a *Access) Prepare(ctx context.Context, r Run) (Ready, error) {
	if err := a.check(r); err != nil {
		return Ready{}, err
	}
	token, left, before, err := a.token(ctx, r)
	if err != nil {
		return Ready{}, err
	}
	if left < RenewBelow {
		if err := a.own(ctx, r, before); err != nil {
			return Ready{}, err
		}
		if token, err = a.o.Issuer.Token(ctx, r); err != nil {
			return Ready{}, err
		}
		left = Lifetime
	}
	ready, err := a.write(ctx, r, token)
	ready.Renew = left - RenewBelow
	return ready, err
}

// token is the one that a run has, and how long it is good. before is whether it had
// any, good or not: then it is no new object.
func (a *Access) token(ctx context.Context, r Run) (token string, left time.Duration, before bool, err error) {
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: r.RunNamespace, Name: r.secret()}
	if err := a.o.Client.Get(ctx, key, s); err != nil {
		return "", 0, false, client.IgnoreNotFound(err)
	}
	if err := a.mine(s, r); err != nil {
		return "", 0, false, err
	}
	token = string(s.Data[keyToken])
	left, err = a.o.Issuer.Left(ctx, token, r)
	return token, left, true, err
}

// Names of what is made for a run.
func (r Run) secret() string   { return r.Name + "-okara-run" }
func (r Run) pull() string     { return r.Name + "-okara-pull" }
func (r Run) config() string   { return r.Name + "-okara-cli" }
func (r Run) caBundle() string { return r.Name + "-okara-ca" }

// Where says how runs reach okara serve and their modules.
type Where struct {
	FrontEnd *url.URL // without a slash at its end
	Cluster  string   // which names the states
	CA       bool     // okara serve has an authority of its own
	Pull     bool     // the operator has a pull Secret
}

// Names is what [Access.Prepare] makes for a run, but for what only the cluster knows. It
// is pure.
func (w Where) Names(r Run) Ready {
	ready := Ready{State: fluxexec.State{Address: w.address(r), TokenSecret: r.secret()}, CLIConfigSecret: r.config()}
	// Where tenants read Secrets none of the operator's may be.
	if w.within(r) || w.Pull && r.RunNamespace != r.Namespace {
		ready.PullSecret = r.pull()
	}
	if w.CA {
		ready.State.CA = &fluxexec.CAFrom{ConfigMap: r.caBundle(), Key: keyCA}
		if w.within(r) {
			ready.CASecret = r.caBundle()
		}
	}
	return ready
}

// within reports whether the module of a run lies in okara serve.
func (w Where) within(r Run) bool {
	host, _, _ := strings.Cut(r.Repository, "/")
	return host == w.FrontEnd.Host
}

func (w Where) stateName(namespace string) string { return w.Cluster + "." + namespace }

func (w Where) address(r Run) string {
	return w.FrontEnd.String() + "/state/" + w.stateName(r.Namespace) + "/" + r.Workspace
}
