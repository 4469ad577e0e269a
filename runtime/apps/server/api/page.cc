// GET /: the page to chat in. It is one file without outside resources, and says so to the browser: nothing but its own script
// runs (the hash is made when it is built), and it talks to this server alone.
#include "runtime/apps/server/page/page.h"

#include "runtime/apps/server/routes.h"

namespace gcrt::serve {

void route_page(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(200, "text/html; charset=utf-8", std::string(kPage),
                    {{"Content-Security-Policy", kPagePolicy},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}});
}

}  // namespace gcrt::serve
