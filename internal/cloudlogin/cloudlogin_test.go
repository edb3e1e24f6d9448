// SPDX-License-Identifier: Apache-2.0

package cloudlogin_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/cloudlogin"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// cloud answers for the hosts of the clouds, as their documentation does, on loopback.
type cloud struct {
	t *testing.T
	http.ServeMux
	server *httptest.Server
	asked  []string
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{t: t}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	for _, name := range []string{
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_CA_BUNDLE",
		"AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	return c
}

// RoundTrip sends each request to loopback, with the host that it is for.
func (c *cloud) RoundTrip(req *http.Request) (*http.Response, error) {
	c.asked = append(c.asked, req.Method+" "+req.URL.Scheme+"://"+req.URL.Host+req.URL.Path)
	if !strings.HasPrefix(req.URL.Host, "127.0.0.1:") && req.URL.Scheme != "https" {
		c.t.Errorf("%s in the clear", req.URL)
	}
	here := req.Clone(req.Context())
	here.Host, here.URL.Scheme, here.URL.Host = req.URL.Host, "http", c.server.Listener.Addr().String()
	return http.DefaultTransport.RoundTrip(here)
}

// login logs in, and requires the answer.
func (c *cloud) login(host string, want oci.Credential) time.Time {
	c.t.Helper()
	identity := cloudlogin.New(func() (http.RoundTripper, error) { return c, nil })
	got, expires, err := identity(context.Background(), host)
	if err != nil || got != want {
		c.t.Fatalf("%s: %+v, %v after %q", host, got, err, c.asked)
	}
	return expires
}

// on answers a form or JSON that has all of the texts.
func (c *cloud) on(pattern, answer string, wants ...string) {
	c.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		must.Succeed(c.t, req.ParseForm())
		said := fmt.Sprint(req.Form, req.Header)
		for _, want := range wants {
			if !strings.Contains(said, want) {
				c.t.Errorf("%s has no %q: %s", pattern, want, said)
			}
		}
		w.Header().Set("Content-Type", map[bool]string{true: "text/xml", false: "application/json"}[strings.HasPrefix(answer, "<")])
		fmt.Fprint(w, answer)
	})
}

func file(t *testing.T, text string) string {
	name := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

const ecr = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"

// onECR answers who has the key of the session.
func (c *cloud) onECR(host, region string) {
	c.on("POST "+host+"/", `{"authorizationData": [{"authorizationToken": "`+base64.StdEncoding.EncodeToString([]byte("AWS:the password"))+`", "expiresAt": 1.9E9, "proxyEndpoint": "https://`+ecr+`"}]}`,
		"X-Amz-Target:[AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken]", "Credential=ASIAEXAMPLE/", "/"+region+"/ecr/aws4_request", "X-Amz-Security-Token:[a session]")
}

// TestECR logs in with the role of a service account, with that of EKS Pod Identity, and at
// an endpoint that is validated for FIPS.
func TestECR(t *testing.T) {
	c := newCloud(t)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "the pod's token"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/okara")
	c.on("POST sts.eu-central-1.amazonaws.com/", `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>a session</SessionToken><Expiration>2036-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, "the pod's token", "role/okara", "AssumeRoleWithWebIdentity")
	c.onECR("api.ecr.eu-central-1.amazonaws.com", "eu-central-1")
	password := oci.Credential{Username: "AWS", Password: "the password"}
	must.Equal(t, "valid until", c.login(ecr, password).Unix(), 1_900_000_000)

	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", c.server.URL+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file(t, "the pod's other token"))
	c.on("GET 127.0.0.1/v1/credentials", `{"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "secret", "Token": "a session", "Expiration": "2036-01-01T00:00:00Z"}`, "the pod's other token")
	c.login(ecr, password)
	c.onECR("ecr-fips.us-east-1.amazonaws.com", "us-east-1")
	c.login("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com", password)
}

// TestACR exchanges the pod's token twice.
func TestACR(t *testing.T) {
	c := newCloud(t)
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file(t, "the pod's token"))
	t.Setenv("AZURE_CLIENT_ID", "the client")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	const authority = "https://login.microsoftonline.com/tenant"
	c.on("login.microsoftonline.com/common/discovery/instance", `{"tenant_discovery_endpoint": "`+authority+`/v2.0/.well-known/openid-configuration", "metadata": []}`)
	c.on("login.microsoftonline.com/tenant/v2.0/.well-known/openid-configuration", `{"issuer": "`+authority+`/v2.0", "authorization_endpoint": "`+authority+`/oauth2/v2.0/authorize", "token_endpoint": "`+authority+`/oauth2/v2.0/token"}`)
	c.on("POST login.microsoftonline.com/tenant/oauth2/v2.0/token", `{"token_type": "Bearer", "expires_in": 3599, "access_token": "of Entra"}`, "the pod's token", "the client", "containerregistry.azure.net/.default", "client_credentials")
	c.on("POST acme.azurecr.io/oauth2/exchange", `{"refresh_token": "of the registry"}`, "grant_type:[access_token]", "service:[acme.azurecr.io]", "of Entra")
	c.login("acme.azurecr.io", oci.Credential{IdentityToken: "of the registry"})
}

// TestGoogle asks GKE's metadata server, and federates the token of a pod elsewhere.
func TestGoogle(t *testing.T) {
	c := newCloud(t)
	t.Setenv("GCE_METADATA_HOST", c.server.Listener.Addr().String())
	c.on("GET 127.0.0.1/computeMetadata/v1/instance/service-accounts/default/token", `{"access_token": "of the node's server", "expires_in": 3599, "token_type": "Bearer"}`, "Metadata-Flavor:[Google]")
	expires := c.login("europe-docker.pkg.dev", oci.Credential{Username: "oauth2accesstoken", Password: "of the node's server"})
	if left := time.Until(expires); left <= 0 || left > time.Hour {
		t.Errorf("valid for %s", left)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file(t, `{"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://sts.googleapis.com/v1/token", "credential_source": {"file": "`+file(t, "the pod's token")+`"}}`))
	c.on("POST sts.googleapis.com/v1/token", `{"access_token": "of the federation", "expires_in": 3599, "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}`, "the pod's token", "workloadIdentityPools/p")
	c.login("gcr.io", oci.Credential{Username: "oauth2accesstoken", Password: "of the federation"})
}

// TestNoWorkload: nobody is asked from a machine that is no pod, nor about other hosts; an error
// names who refused, and no token.
func TestNoWorkload(t *testing.T) {
	c := newCloud(t)
	for _, host := range []string{ecr, "public.ecr.aws", "acme.azurecr.io", "europe-docker.pkg.dev", "ghcr.io", "127.0.0.1:5000"} {
		c.login(host, oci.Credential{})
	}
	must.Equal(t, "requests", len(c.asked), 0)
	t.Setenv("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	c.HandleFunc("POST api.ecr.eu-central-1.amazonaws.com/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"__type": "AccessDeniedException", "message": "not authorized to perform: ecr:GetAuthorizationToken"}`, http.StatusBadRequest)
	})
	_, _, err := cloudlogin.New(func() (http.RoundTripper, error) { return c, nil })(t.Context(), ecr)
	if err == nil || !strings.Contains(err.Error(), "ecr:GetAuthorizationToken") || !strings.Contains(err.Error(), "api.ecr.eu-central-1") {
		t.Errorf("refused: %v", err)
	}
}

// TestIdentityIsTheLast: a login that was configured is used instead, and without one the
// identity, which is asked again before it expires.
func TestIdentityIsTheLast(t *testing.T) {
	env, now, logins := map[string]string{}, time.Now(), 0
	r := credentials.New(credentials.Options{
		Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return now },
		Identity: func(context.Context, string) (oci.Credential, time.Time, error) {
			if logins++; logins == 1 {
				return oci.Credential{}, time.Time{}, fmt.Errorf("the cloud is away")
			}
			return oci.Credential{Username: "AWS", Password: fmt.Sprint(logins)}, now.Add(time.Hour), nil
		},
	})
	is := func(user, password string) {
		t.Helper()
		must.Equal(t, "credential", must.Get(r.Credential(t.Context(), ecr, "a"))(t), oci.Credential{Username: user, Password: password})
	}
	is("", "")
	now = now.Add(time.Minute)
	is("AWS", "2")
	is("AWS", "2")
	now = now.Add(time.Hour)
	is("AWS", "3")
	must.Equal(t, "elsewhere", must.Get(r.Credential(t.Context(), "ghcr.io", "a"))(t), oci.Credential{})
	list := must.Get(r.Explain(t.Context(), ecr, "a"))(t)
	if first := list[0]; first.Source != "workload identity" || first.Helper != "" {
		t.Errorf("explained as %+v", list)
	}
	env["DOCKER_AUTH_CONFIG"] = `{"auths": {"` + ecr + `": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("me:mine")) + `"}}}`
	r.Rejected("ghcr.io", "a", oci.Credential{}, false) // reads files again
	is("me", "mine")
}
