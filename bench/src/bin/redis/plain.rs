//! What everybody writes: one call of a short GCRA script for each decision, through the same library.

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _};

use crate::Failed;
use crate::cases::AMOUNT;

/// Whole microseconds, the server's clock, one key, an absolute expiry.
const SCRIPT: &str = "
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local interval, tolerance, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1])) or now
if tat < now then tat = now end
local new = tat + cost * interval
if new - now > tolerance then
  return {0, math.floor((now + tolerance - tat) / interval), new - tolerance - now, tat - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PXAT', string.format('%.0f', math.ceil(new / 1000)))
return {1, math.floor((now + tolerance - new) / interval), 0, new - now}
";

#[derive(Clone)]
pub(crate) struct Plain {
    connection: MultiplexedConnection,
    digest: String,
}

impl Plain {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failed> {
        let info = url.into_connection_info()?.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let mut connection = Client::open(info)?.get_multiplexed_async_connection().await?;
        let digest = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
        Ok(Self { connection, digest })
    }

    /// Whether a request of one unit is allowed.
    pub(crate) async fn decide(&self, key: u64) -> Result<bool, Failed> {
        let interval = 3_600_000_000 / AMOUNT;
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest).arg(1).arg(format!("rl:{{user:{key:07}}}:api.hour"));
        command.arg(interval).arg(interval * AMOUNT).arg(1);
        let (allowed, _remaining, _retry, _reset): (u8, u64, u64, u64) =
            command.query_async(&mut connection).await?;
        Ok(allowed == 1)
    }
}
