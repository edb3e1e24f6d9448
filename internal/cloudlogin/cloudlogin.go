// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// New returns a [credentials.Identity]. transport is called at each login.
func New(transport func() (http.RoundTripper, error)) credentials.Identity {
	return func(ctx context.Context, host string) (oci.Credential, time.Time, error) {
		login := map[string]func(context.Context, *http.Client, string) (oci.Credential, time.Time, error){
			credentials.AWS: logInECR, credentials.Azure: logInACR, credentials.Google: logInGoogle,
		}[credentials.Cloud(host)]
		if login == nil {
			return oci.Credential{}, time.Time{}, nil
		}
		t, err := transport()
		if err != nil {
			return oci.Credential{}, time.Time{}, err
		}
		return login(ctx, &http.Client{Transport: t}, host)
	}
}

// isSet reports whether the environment has one of these variables.
func isSet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return os.Getenv(name) != "" })
}

// inPod is set in each container of Kubernetes.
const inPod = "KUBERNETES_SERVICE_HOST"

// logInECR logs in at ACCOUNT.dkr.ecr.REGION.amazonaws.com; public.ecr.aws needs no login.
func logInECR(ctx context.Context, client *http.Client, host string) (c oci.Credential, expires time.Time, err error) {
	_, private, ok := strings.Cut(host, ".dkr.")
	if !ok || !isSet("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ACCESS_KEY_ID", inPod) {
		return c, expires, nil
	}
	service, place, _ := strings.Cut(private, ".")
	region, _, _ := strings.Cut(place, ".")
	endpoint := "https://" + map[string]string{"ecr": "api.ecr", "ecr-fips": "ecr-fips"}[service] + "." + place + "/"
	options := []func(*config.LoadOptions) error{config.WithDefaultRegion(region)}
	if !isSet("AWS_CA_BUNDLE") { // with it the SDK accepts only a client of its own
		options = append(options, config.WithHTTPClient(client))
	}
	conf, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return c, expires, err
	}
	keys, err := conf.Credentials.Retrieve(ctx)
	if err != nil {
		return c, expires, err
	}
	const body = "{}"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return c, expires, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "ecr", region, time.Now()); err != nil {
		return c, expires, err
	}
	var answer struct {
		AuthorizationData []struct {
			AuthorizationToken []byte
			ExpiresAt          float64
		}
	}
	if err := askJSON(client, req, &answer); err != nil {
		return c, expires, err
	}
	if len(answer.AuthorizationData) == 0 {
		return c, expires, fmt.Errorf("%s: the response has no token", endpoint)
	}
	data := answer.AuthorizationData[0]
	c.Username, c.Password, _ = strings.Cut(string(data.AuthorizationToken), ":")
	return c, time.Unix(int64(data.ExpiresAt), 0), nil
}

func logInACR(ctx context.Context, client *http.Client, host string) (c oci.Credential, expires time.Time, err error) {
	if !isSet("AZURE_FEDERATED_TOKEN_FILE") {
		return c, expires, nil
	}
	identity, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: azcore.ClientOptions{Transport: client}})
	if err != nil {
		return c, expires, err
	}
	access, err := identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://containerregistry.azure.net/.default"}})
	if err != nil {
		return c, expires, err
	}
	form := url.Values{"grant_type": {"access_token"}, "service": {host}, "access_token": {access.Token}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/oauth2/exchange", strings.NewReader(form.Encode()))
	if err != nil {
		return c, expires, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Token string `json:"refresh_token"`
	}
	err = askJSON(client, req, &answer)
	return oci.Credential{IdentityToken: answer.Token}, expires, err // a JWT, which has the time
}

func logInGoogle(ctx context.Context, client *http.Client, _ string) (c oci.Credential, expires time.Time, err error) {
	federated := isSet("GOOGLE_APPLICATION_CREDENTIALS")
	if !federated && !(isSet("GCE_METADATA_HOST", inPod) && metadata.OnGCEWithContext(ctx)) {
		return c, expires, nil
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	found, err := google.FindDefaultCredentials(ctx, "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		return c, expires, err
	}
	token, err := found.TokenSource.Token()
	if err != nil {
		return c, expires, err
	}
	return oci.Credential{Username: "oauth2accesstoken", Password: token.AccessToken}, token.Expiry, nil
}

// maxAnswer bounds an answer, in bytes; a token has a few KiB.
const maxAnswer = 256 << 10

// askJSON decodes an answer. Errors quote only those that have no token.
func askJSON(client *http.Client, req *http.Request, answer any) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", req.URL, err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", req.URL, resp.Status, text.Clip(strings.TrimSpace(string(b)), 300))
	case json.Unmarshal(b, answer) != nil:
		return fmt.Errorf("%s: the response is not JSON with a token", req.URL)
	}
	return nil
}
